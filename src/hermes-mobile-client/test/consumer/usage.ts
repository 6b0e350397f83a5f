// A program that touches every name of the package: the package's tests compile and run it.

import {
  base64ToBytes,
  bytesToBase64,
  HermesClient,
  makeId,
  MEDIA_CHUNK_BYTES,
  PROTOCOL_VERSION,
  type AgentMessage,
  type AvatarState,
  type ClientOptions,
  type ConnectionState,
  type DeviceInfo,
  type HermesClientHandlers,
  type MediaPayload,
  type MediaSendOptions,
  type MediaSource,
  type PromptDonePayload,
  type PromptOption,
  type PromptPayload,
  type ProtocolError,
  type ReadyPayload,
} from 'hermes-mobile-client';

const version: number = PROTOCOL_VERSION;
const chunkBytes: number = MEDIA_CHUNK_BYTES;
const id: string = makeId();
const bytes: Uint8Array = base64ToBytes(bytesToBase64(new Uint8Array([version])));

const device: DeviceInfo = { id: 'app-1', name: 'Phone', platform: 'web', appVersion: '1.0.0' };

const handlers: Required<HermesClientHandlers> = {
  onState: (state: ConnectionState, detail?: string) => {
    const states: Record<ConnectionState, number> = {
      idle: 0,
      connecting: 1,
      connected: 2,
      reconnecting: 3,
      failed: 4,
    };
    return [states[state], detail?.length];
  },
  onReady: (ready: ReadyPayload) => {
    const { v, session, device: seen, avatar_url, capabilities } = ready;
    const { text, voice, typing, avatar_states, media_in, media_out } = capabilities;
    const { prompts, edit, max_media_bytes, max_text_chars, receipts } = capabilities;
    const states: AvatarState[] = avatar_states ?? [];
    const kinds: string[] = [...(media_in ?? []), ...(media_out ?? []), ...(prompts ?? [])];
    const limits: number = v + (max_media_bytes ?? 0) + (max_text_chars ?? 0);
    const flags: boolean[] = [text, voice, typing, edit ?? false, receipts ?? false];
    return [session, seen.id, seen.name, avatar_url, states, kinds, limits, flags];
  },
  onMessage: (message: AgentMessage) => {
    const { id, text, index, total, final, edit } = message;
    return [id + text, index + total, final && edit === true];
  },
  onMessageEdit: (message: AgentMessage) => message.text,
  onTyping: () => undefined,
  onTypingStop: () => undefined,
  onAvatar: (state: AvatarState) =>
    state === 'idle' || state === 'thinking' || state === 'speaking',
  onPrompt: (prompt: PromptPayload) => {
    const { id, kind, text, options, session, timeout_seconds, command, description } = prompt;
    const labels = options.map(({ id, label, style }: PromptOption) => id + label + (style ?? ''));
    return [id, kind, text, labels, session, timeout_seconds / 2, command, description];
  },
  onPromptDone: ({ id, option_id, expired }: PromptDonePayload) => [
    id,
    option_id,
    expired === true,
  ],
  onMedia: (media: MediaPayload) => {
    const { id, kind, mime, filename, caption, part, parts, final, size, data, url, reply_to } =
      media;
    const source: string | undefined = data ? `data:${mime};base64,${data}` : url;
    return [id, kind, filename, caption, part + parts + size, final, source, reply_to];
  },
  onError: ({ code, message, fatal }: ProtocolError) => [code, message, fatal === true],
};

const options: Required<ClientOptions> = {
  url: 'wss://agent.example.com/ws',
  token: 'made-up',
  device,
  user: { id: 'u-1', name: 'Eugene' },
  handlers,
  maxBackoffMs: 15_000,
  keepAliveMs: 25_000,
  keepAliveTimeoutMs: 45_000,
};
const client = new HermesClient(options);
const minimal = new HermesClient({ url: options.url, token: options.token, device });

export function run(): string[] {
  const ready: boolean = minimal.ready;
  client.setHandlers({ onTyping: () => undefined });
  client.disconnect();
  client.sendTyping();
  client.acknowledge(id);
  client.ping();
  client.answerPrompt('p1', 'once');
  client.answerPrompt('p1', undefined, 'neither');
  const send: Required<MediaSendOptions> = {
    mime: 'image/png',
    filename: 'a.png',
    caption: 'now',
    messageId: id,
    chunkBytes,
  };
  const sources: MediaSource[] = ['AQID', bytes];
  const path: MediaSource = { path: '/nowhere/a.png' };
  try {
    client.sendImage(path);
  } catch (error) {
    if (!(error instanceof Error)) throw error;
  }
  return [
    String(ready),
    client.sendText('hi'),
    client.sendText('hi', id),
    client.sendAudio('AQID', 'wav'),
    client.sendAudio('AQID', 'ogg', 'words', id),
    client.sendMedia('video', sources[0]!, send),
    client.sendImage(bytes),
    client.sendDocument('AQID', send),
    client.sendVoice('AQID'),
  ];
}

// @ts-expect-error the TypeScript client leaves the timeout of opening to the runtime
export type None = Required<ClientOptions>['openTimeout'];
// @ts-expect-error the compiler knows the formats
export const wrong = (): string => client.sendAudio('AQID', 'mp3');
