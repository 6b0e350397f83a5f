// The wire: JSON in and out.

import {
  PROTOCOL_VERSION,
  type AgentMessage,
  type AvatarState,
  type MediaPayload,
  type PromptDonePayload,
  type PromptOption,
  type PromptPayload,
  type ProtocolError,
  type ReadyPayload,
} from './types.js';

/** A frame from the app; a field that is `undefined` does not go on the wire. */
export type AppFrame =
  | {
      t: 'hello';
      v: number;
      token: string;
      device: { id: string; name: string; platform: string; app_version: string };
      user: { id?: string; name?: string };
      receipts: true;
    }
  | { t: 'text'; id: string; text: string }
  | { t: 'audio'; id: string; format: string; data: string; text: string | undefined }
  | {
      t: 'media';
      id: string;
      kind: string;
      mime: string;
      data: string;
      part: number;
      parts: number;
      filename: string | undefined;
      caption: string | undefined;
    }
  | { t: 'prompt'; prompt_id: string; option_id: string | undefined; text: string | undefined }
  | { t: 'typing' }
  | { t: 'ack'; id: string }
  | { t: 'ping'; ts: number };

/** A frame from the gateway, as far as this client knows it. */
export type GatewayFrame =
  | { t: 'ready'; ready: ReadyPayload }
  | { t: 'message'; message: AgentMessage }
  | { t: 'typing'; stop: boolean }
  | { t: 'avatar'; state: AvatarState }
  | { t: 'prompt'; prompt: PromptPayload }
  | { t: 'prompt_done'; done: PromptDonePayload }
  | { t: 'media'; chunk: MediaPayload }
  | { t: 'error'; error: ProtocolError; id: string }
  | { t: 'accepted'; id: string };

export function encode(frame: AppFrame): string {
  return JSON.stringify(frame);
}

/** Decode a message of the WebSocket; undefined for what this client does not know (T7). */
export function decode(data: unknown): GatewayFrame | undefined {
  const frame = new Fields(parse(data));
  switch (frame.string('t').trim().toLowerCase()) {
    case 'ready':
      return { t: 'ready', ready: readyOf(frame) };
    case 'message':
      return { t: 'message', message: messageOf(frame) };
    case 'typing':
      return { t: 'typing', stop: frame.flag('stop') };
    case 'avatar':
      return { t: 'avatar', state: avatarStateOf(frame.string('state')) };
    case 'prompt':
      return { t: 'prompt', prompt: promptOf(frame) };
    case 'prompt_done':
      return { t: 'prompt_done', done: promptDoneOf(frame) };
    case 'media':
      return { t: 'media', chunk: mediaOf(frame) };
    case 'error':
      return { t: 'error', error: errorOf(frame), id: frame.string('id') };
    case 'accepted':
      return { t: 'accepted', id: frame.string('id') };
    default:
      return undefined;
  }
}

function parse(data: unknown): unknown {
  if (typeof data !== 'string') return undefined;
  try {
    return JSON.parse(data);
  } catch {
    return undefined;
  }
}

/** The fields of a JSON object. One of another type counts as absent, a value of another as empty. */
class Fields {
  private readonly fields: Record<string, unknown>;

  constructor(value: unknown) {
    this.fields = isObject(value) ? value : {};
  }

  string(name: string): string {
    return this.optional(name) ?? '';
  }

  optional(name: string): string | undefined {
    const value = this.fields[name];
    return typeof value === 'string' ? value : undefined;
  }

  number(name: string, absent: number): number {
    const value = this.fields[name];
    return typeof value === 'number' ? value : absent;
  }

  flag(name: string): boolean {
    return this.fields[name] === true;
  }

  object(name: string): Fields {
    return new Fields(this.fields[name]);
  }

  list(name: string): Fields[] {
    const value = this.fields[name];
    return Array.isArray(value) ? value.map((item) => new Fields(item)) : [];
  }

  /** The object as it came. */
  raw(name: string): Record<string, unknown> {
    const value = this.fields[name];
    return isObject(value) ? value : {};
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Only the fields that are there: an absent field is absent in the payload, too. */
function present<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

function readyOf(frame: Fields): ReadyPayload {
  const device = frame.object('device');
  return {
    v: frame.number('v', PROTOCOL_VERSION),
    session: frame.string('session'),
    device: { id: device.string('id'), name: device.string('name') },
    avatar_url: frame.string('avatar_url'),
    capabilities: { text: true, voice: true, typing: true, ...frame.raw('capabilities') },
  };
}

function messageOf(frame: Fields): AgentMessage {
  const chunk = frame.object('chunk');
  return {
    id: frame.string('id'),
    text: frame.string('text'),
    index: chunk.number('index', 0),
    total: chunk.number('total', 1),
    final: frame.flag('final'),
    ...present({ edit: frame.flag('edit') || undefined }),
  };
}

function avatarStateOf(state: string): AvatarState {
  return state === 'thinking' || state === 'speaking' ? state : 'idle';
}

function promptOf(frame: Fields): PromptPayload {
  return {
    id: frame.string('id'),
    kind: frame.string('kind'),
    text: frame.string('text'),
    options: frame.list('options').map(optionOf),
    session: frame.string('session'),
    timeout_seconds: frame.number('timeout_seconds', 0),
    ...present({
      command: frame.optional('command'),
      description: frame.optional('description'),
    }),
  };
}

function optionOf(option: Fields): PromptOption {
  return {
    id: option.string('id'),
    label: option.string('label'),
    ...present({ style: option.optional('style') }),
  };
}

function promptDoneOf(frame: Fields): PromptDonePayload {
  return {
    id: frame.string('id'),
    ...present({
      option_id: frame.optional('option_id'),
      expired: frame.flag('expired') || undefined,
    }),
  };
}

function mediaOf(frame: Fields): MediaPayload {
  return {
    id: frame.string('id'),
    kind: frame.string('kind'),
    mime: frame.string('mime'),
    filename: frame.string('filename'),
    caption: frame.string('caption'),
    part: frame.number('part', 0),
    parts: frame.number('parts', 1),
    final: frame.flag('final'),
    size: frame.number('size', 0),
    ...present({
      data: frame.optional('data'),
      url: frame.optional('url'),
      reply_to: frame.optional('reply_to'),
    }),
  };
}

function errorOf(frame: Fields): ProtocolError {
  return {
    code: frame.string('code'),
    message: frame.string('message'),
    fatal: frame.flag('fatal'),
  };
}
