// What an app gives to a client and gets from it.

/** The version of the protocol that this client speaks. */
export const PROTOCOL_VERSION = 1;

/** Bytes of a file per `media` frame, where `MediaSendOptions.chunkBytes` does not say: 3 MiB. */
export const MEDIA_CHUNK_BYTES = 3 * 1024 * 1024;

export type AvatarState = 'idle' | 'thinking' | 'speaking';

/**
 * - `idle`: not connected, and not trying to be;
 * - `connecting`: the first attempt after `connect()`;
 * - `connected`: `ready` has arrived, sends go out at once;
 * - `reconnecting`: the connection was lost or could not be made; attempts follow by themselves;
 * - `failed`: the gateway refused (`auth_failed`) or another instance took over (`replaced`);
 *   only `connect()` leaves this state.
 */
export type ConnectionState = 'idle' | 'connecting' | 'connected' | 'reconnecting' | 'failed';

/** The device as the agent's owner sees it. */
export interface DeviceInfo {
  /** The permanent id of this installation; the agent reaches it as `mobile:<id>`. */
  id: string;
  name: string;
  /** `ios`, `android`, `web` or another label. */
  platform: string;
  appVersion: string;
}

export interface ClientOptions {
  /** `ws://host:8787/ws` or `wss://host/ws`. The token is never part of it. */
  url: string;
  /** The app's token; sent in `hello` only. */
  token: string;
  device: DeviceInfo;
  /** Whom the agent sees. */
  user?: { id?: string; name?: string };
  handlers?: HermesClientHandlers;
  /** Ceiling of the pause between attempts to reconnect, in milliseconds; 15000 by default. */
  maxBackoffMs?: number;
  /** Silence after which the client pings, in milliseconds; 25000 by default, 0 = never (T5). */
  keepAliveMs?: number;
  /** Silence after that ping which ends the connection, in milliseconds; 45000 by default (T5). */
  keepAliveTimeoutMs?: number;
}

/** What an app is told; an exception inside a callback is not caught. */
export interface HermesClientHandlers {
  /** The state changed; while reconnecting, `detail` is `попытка N`. */
  onState?: (state: ConnectionState, detail?: string) => void;
  /** The session is there; follows `onState('connected')`. */
  onReady?: (ready: ReadyPayload) => void;
  /** A piece of the agent's reply; pieces with one `id` are one message. */
  onMessage?: (message: AgentMessage) => void;
  /** The whole text so far of a message shown before; shown as new where the `id` is unknown. */
  onMessageEdit?: (message: AgentMessage) => void;
  /** The agent is typing. */
  onTyping?: () => void;
  onTypingStop?: () => void;
  onAvatar?: (state: AvatarState) => void;
  /** A question with buttons, to be answered with `answerPrompt`. */
  onPrompt?: (prompt: PromptPayload) => void;
  /** A card has ended: its buttons are to be taken away. */
  onPromptDone?: (done: PromptDonePayload) => void;
  /** A whole file, or a link to one. */
  onMedia?: (media: MediaPayload) => void;
  onError?: (error: ProtocolError) => void;
}

/** The `ready` frame. */
export interface ReadyPayload {
  v: number;
  /** `mobile:<device.id>`. */
  session: string;
  device: { id: string; name: string };
  /** A page that shows the avatar, for a WebView; may be empty. */
  avatar_url: string;
  capabilities: {
    text: boolean;
    voice: boolean;
    typing: boolean;
    avatar_states?: AvatarState[];
    /** Kinds of file that the agent takes. */
    media_in?: string[];
    /** Kinds of file that the agent may send. */
    media_out?: string[];
    /** Kinds of card. */
    prompts?: string[];
    edit?: boolean;
    /** Bytes of a file. */
    max_media_bytes?: number;
    /** Code points of a text. */
    max_text_chars?: number;
    /** The gateway confirms what it accepted, so that the client can send the rest again (T9). */
    receipts?: boolean;
  };
}

/** A `message` frame: a piece of a reply, or a state of one that grows. */
export interface AgentMessage {
  id: string;
  text: string;
  /** The piece's number, from 0. */
  index: number;
  total: number;
  /** The last piece or state. */
  final: boolean;
  /** `text` replaces what was shown under this `id`. */
  edit?: boolean;
}

export interface PromptOption {
  id: string;
  label: string;
  /** `primary`, `danger` or empty. */
  style?: string;
}

/** A `prompt` frame: a card. */
export interface PromptPayload {
  id: string;
  /** `exec_approval`, `slash_confirm` or `clarify`. */
  kind: string;
  text: string;
  options: PromptOption[];
  session: string;
  /** How long the card still lives. */
  timeout_seconds: number;
  /** Of an `exec_approval`: the exact command, to be shown next to the buttons. */
  command?: string;
  /** Of an `exec_approval`: what the command does. */
  description?: string;
}

/** A `prompt_done` frame. */
export interface PromptDonePayload {
  id: string;
  /** The option that counts; not always the one that was sent. */
  option_id?: string;
  expired?: boolean;
}

/** A file from the agent, put together from its `media` frames. */
export interface MediaPayload {
  id: string;
  /** `image`, `video`, `document`, `audio`, `voice` or `animation`. */
  kind: string;
  mime: string;
  filename: string;
  caption: string;
  part: number;
  parts: number;
  final: boolean;
  /** Bytes of the whole file. */
  size: number;
  /** The whole file in base64. */
  data?: string;
  /** Where the app fetches the file itself. */
  url?: string;
  /** The message that the file answers. */
  reply_to?: string;
}

export interface ProtocolError {
  /** `offline`, `transport`, `auth_failed`, `replaced`, or a code of the gateway's. */
  code: string;
  message: string;
  /** Trying again is pointless. */
  fatal: boolean;
}

/** A file to send: base64, bytes, or the path of a file (Node and Electron only). */
export type MediaSource = string | Uint8Array | { path: string };

export interface MediaSendOptions {
  /** Guessed from the file's name by default. */
  mime?: string;
  /** The last component of a `path` by default. */
  filename?: string;
  caption?: string;
  /** The message's id, the same when it is sent again; made up by default. */
  messageId?: string;
  /** Bytes of the file per frame; `MEDIA_CHUNK_BYTES` by default. */
  chunkBytes?: number;
}
