/** Quantities as people read them, and the errors of the protocol in words. */

/** "640 bytes", "12 KB", "3.4 MB". */
export function size(bytes: number): string {
  if (bytes < 1024) return bytes === 1 ? '1 byte' : `${bytes} bytes`;
  const kilo = bytes / 1024;
  if (kilo < 1024) return `${Math.round(kilo)} KB`;
  const mega = kilo / 1024;
  return `${mega < 10 ? mega.toFixed(1).replace(/\.0$/, '') : Math.round(mega)} MB`;
}

/** "4:05": minutes and seconds, rounded up, so that it reads 0:00 only when nothing is left. */
export function minutes(seconds: number): string {
  const whole = Math.max(0, Math.ceil(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, '0')}`;
}

/** "14:03", in the reader's own way. */
export function clock(time: number): string {
  return new Date(time).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
}

/** How many code points a text has: that is what the protocol counts (D15). */
export function length(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

export interface Problem {
  readonly title: string;
  readonly advice: string;
}

const PROBLEMS: Readonly<Record<string, Problem>> = {
  auth_failed: {
    title: 'Access denied',
    advice:
      'The token is not valid here, or the server does not admit this device. ' +
      'Check both with whoever runs the server.',
  },
  auth_required: {
    title: 'Sign in first',
    advice: 'The server wants a token before anything else.',
  },
  forbidden: {
    title: 'Not allowed',
    advice:
      'This token may not do that, or the device name belongs to another token. ' +
      'Use the token that this device was given, or another device name.',
  },
  too_big: {
    title: 'Too big',
    advice: 'The server does not take this much at once. Split it, or make it smaller.',
  },
  bad_frame: {
    title: 'Not understood',
    advice: 'The server could not read what this page sent. Reloading the page may help.',
  },
  unsupported_frame: {
    title: 'Not supported',
    advice: 'The agent does not take this kind of file or recording.',
  },
  device_offline: {
    title: 'Device offline',
    advice: 'The device that this was meant for is not connected. Try again later.',
  },
  internal_error: {
    title: 'That did not work',
    advice: 'Something went wrong on the server’s side. You can send it again.',
  },
  replaced: {
    title: 'Open somewhere else',
    advice: 'Another tab or window uses this device now, so this one has stopped.',
  },
  offline: {
    title: 'Not sent',
    advice: 'There was no connection to the server.',
  },
  transport: {
    title: 'No connection',
    advice: 'The server cannot be reached.',
  },
};

/** What an error code means, and what to do about it; a code this page does not know has words too. */
export function problem(code: string): Problem {
  return (
    (Object.hasOwn(PROBLEMS, code) ? PROBLEMS[code] : undefined) ?? {
      title: 'Something went wrong',
      advice: `The server reported “${code}”.`,
    }
  );
}
