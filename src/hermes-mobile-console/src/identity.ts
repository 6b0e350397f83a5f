/** Who this browser is to the server. The device id stays; the token lives in memory only. */

export interface Link {
  readonly token: string;
  /** Empty where the link names none. */
  readonly device: string;
}

/** What a console link carries in its fragment (`#token=…&device=…`), or null. */
export function linkIn(fragment: string): Link | null {
  const fields = new URLSearchParams(fragment.replace(/^#/, ''));
  const token = fields.get('token')?.trim() ?? '';
  if (token === '') return null;
  return { token, device: fields.get('device')?.trim() ?? '' };
}

/** Reads the link this page was opened with, and takes it out of the address bar and the history. */
export function takeLink(location: Location, history: History): Link | null {
  const link = linkIn(location.hash);
  if (link !== null) {
    // The path alone: a query would survive here, and nothing of ours is ever in one.
    history.replaceState(null, '', location.pathname);
  }
  return link;
}

const DEVICE_KEY = 'hermes-mobile.device';

/** The device id of this browser: the one it has, or a new one. A private window may keep none. */
export function deviceId(storage: () => Storage): string {
  try {
    const kept = storage().getItem(DEVICE_KEY);
    if (kept !== null && kept !== '') return kept;
  } catch {
    // No storage here: the id lasts as long as the page.
  }
  return `web-${crypto.randomUUID().slice(0, 8)}`;
}

export function keepDeviceId(storage: () => Storage, id: string): void {
  try {
    storage().setItem(DEVICE_KEY, id);
  } catch {
    // As above.
  }
}
