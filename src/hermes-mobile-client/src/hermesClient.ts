/**
 * Client of the Hermes Mobile protocol v1: transport and callbacks, no user interface.
 *
 * The rules that the comments cite (D1 to D40, T1 to T10) are those of docs/protocol.md.
 */

import { Assembly } from './assembly.js';
import { backoffMs } from './backoff.js';
import { Connection } from './connection.js';
import { decode, encode, type AppFrame } from './frames.js';
import { makeId } from './id.js';
import { mediaFrames } from './media.js';
import { Held, outgoing, Unaccepted, type Outgoing } from './outbox.js';
import { Once, ShownMessages } from './repeats.js';
import {
  PROTOCOL_VERSION,
  type AgentMessage,
  type ClientOptions,
  type ConnectionState,
  type HermesClientHandlers,
  type MediaPayload,
  type MediaSendOptions,
  type MediaSource,
  type ProtocolError,
  type ReadyPayload,
} from './types.js';

export { base64ToBytes, bytesToBase64 } from './base64.js';
export { makeId } from './id.js';
export {
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
} from './types.js';

const MAX_BACKOFF_MS = 15_000;
const KEEP_ALIVE_MS = 25_000;
const KEEP_ALIVE_TIMEOUT_MS = 45_000;

/** Life after `ready` that makes a connection a good one: the pauses begin anew (T2). */
const STABLE_MS = 10_000;

const REFUSED = 1008;
const REPLACED = 4001;

export class HermesClient {
  private readonly options: ClientOptions;
  private handlers: HermesClientHandlers;
  private state: ConnectionState = 'idle';
  private connection: Connection | undefined;

  private attempts = 0;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private stable: ReturnType<typeof setTimeout> | undefined;

  /** There between `connect()` and the first `ready`. */
  private held: Held | undefined;
  private readonly unaccepted = new Unaccepted();
  private receipts = false;

  private readonly assembly = new Assembly();
  private readonly shown = new ShownMessages();
  private readonly files = new Once();
  private readonly cards = new Once();

  constructor(options: ClientOptions) {
    this.options = options;
    this.handlers = { ...options.handlers };
  }

  /** Whether the state is `connected`: what is sent goes out at once. */
  get ready(): boolean {
    return this.state === 'connected';
  }

  /** Set callbacks in addition to, or in place of, those already set. */
  setHandlers(handlers: HermesClientHandlers): void {
    this.handlers = { ...this.handlers, ...handlers };
  }

  /**
   * Connect, and stay connected until `disconnect()` or a refusal.
   *
   * While connecting or connected it does nothing; while reconnecting it skips the pause. Throws
   * what the runtime's WebSocket throws for a `url` that is no WebSocket address.
   */
  connect(): void {
    if (this.connection !== undefined) return;
    const fromRest = this.state !== 'reconnecting';
    this.open();
    if (!fromRest) return;
    this.attempts = 0;
    this.held = new Held();
    this.setState('connecting');
  }

  /** Close the connection and stay away. What is still held is reported as `offline` (T1). */
  disconnect(): void {
    clearTimeout(this.retry);
    this.connection?.abandon();
    const lost = this.forgetConnection() + this.dropHeld();
    this.setState('idle');
    this.reportOffline(lost);
  }

  /** Send a text; returns its id. The gateway drops a repeat with the same id. */
  sendText(text: string, messageId?: string): string {
    const id = messageId || makeId();
    this.send([{ t: 'text', id, text }], id);
    return id;
  }

  /** Send a voice recording in base64, with its words if the app knows them; returns its id. */
  sendAudio(
    base64: string,
    format: 'wav' | 'ogg',
    transcript?: string,
    messageId?: string,
  ): string {
    const id = messageId || makeId();
    this.send([{ t: 'audio', id, format, data: base64, text: transcript || undefined }], id);
    return id;
  }

  /** The person is typing. */
  sendTyping(): void {
    this.send([{ t: 'typing' }]);
  }

  /** The app has shown or played the message with this id. */
  acknowledge(messageId: string): void {
    this.send([{ t: 'ack', id: messageId }]);
  }

  ping(): void {
    this.send([{ t: 'ping', ts: Date.now() }]);
  }

  /**
   * Answer a card with one of its options, in words, or both (`other` of a `clarify`).
   *
   * Throws Error without a `promptId`, and without an answer. Which option counts in the end is in
   * `onPromptDone`.
   */
  answerPrompt(promptId: string, optionId?: string, text?: string): void {
    if (!promptId) throw new Error('promptId: missing');
    if (!optionId && !text) throw new Error('optionId, text: one of them is needed');
    this.send(
      [
        {
          t: 'prompt',
          prompt_id: promptId,
          option_id: optionId?.toLowerCase() || undefined,
          text: text || undefined,
        },
      ],
      promptId,
    );
  }

  /**
   * Send a file in chunks; returns its id. `kind` is `image`, `video`, `document` or `audio`.
   *
   * Throws Error for another kind, an empty file, and a `path` that cannot be read.
   */
  sendMedia(kind: string, source: MediaSource, options: MediaSendOptions = {}): string {
    const id = options.messageId || makeId();
    this.send(mediaFrames(id, kind, source, options), id);
    return id;
  }

  sendImage(source: MediaSource, options?: MediaSendOptions): string {
    return this.sendMedia('image', source, options);
  }

  sendDocument(source: MediaSource, options?: MediaSendOptions): string {
    return this.sendMedia('document', source, options);
  }

  sendVoice(source: MediaSource, options?: MediaSendOptions): string {
    return this.sendMedia('audio', source, options);
  }

  // The life of a connection

  private open(): void {
    clearTimeout(this.retry);
    const { url, keepAliveMs, keepAliveTimeoutMs } = this.options;
    this.connection = new Connection(
      url,
      {
        keepAliveMs: keepAliveMs ?? KEEP_ALIVE_MS,
        keepAliveTimeoutMs: keepAliveTimeoutMs ?? KEEP_ALIVE_TIMEOUT_MS,
      },
      {
        opened: () => this.sayHello(),
        received: (data) => this.receive(data),
        failed: () => this.report('transport', 'Ошибка соединения со шлюзом'),
        ended: (code) => this.connectionEnded(code),
      },
    );
  }

  private sayHello(): void {
    const { token, device, user } = this.options;
    const hello = encode({
      t: 'hello',
      v: PROTOCOL_VERSION,
      token,
      device: {
        id: device.id,
        name: device.name,
        platform: device.platform,
        app_version: device.appVersion,
      },
      user: { ...user },
      receipts: true,
    });
    this.connection?.send([hello]);
  }

  private welcome(ready: ReadyPayload): void {
    this.receipts = ready.capabilities.receipts === true;
    this.stable = setTimeout(() => {
      this.attempts = 0;
    }, STABLE_MS);
    this.sendWaiting();
    this.setState('connected');
    if (this.ready) this.handlers.onReady?.(ready);
  }

  private connectionEnded(code: number): void {
    let lost = this.forgetConnection();
    const refusal = refusalOf(code);
    if (refusal === undefined) {
      this.scheduleRetry();
    } else {
      lost += this.dropHeld();
      // A message that was the cause would be refused again.
      if (code === REFUSED) lost += this.unaccepted.clear();
      this.setState('failed');
      this.handlers.onError?.(refusal);
    }
    this.reportOffline(lost);
  }

  /** Returns how many messages are given up with the connection. */
  private forgetConnection(): number {
    clearTimeout(this.stable);
    this.connection = undefined;
    this.assembly.clear();
    this.shown.connectionEnded();
    return this.unaccepted.connectionEnded();
  }

  private scheduleRetry(): void {
    const pause = backoffMs(this.attempts, this.options.maxBackoffMs ?? MAX_BACKOFF_MS);
    this.attempts += 1;
    this.retry = setTimeout(() => this.open(), pause);
    this.setState('reconnecting', `попытка ${this.attempts}`);
  }

  private setState(state: ConnectionState, detail?: string): void {
    if (state === this.state && detail === undefined) return;
    this.state = state;
    this.handlers.onState?.(state, detail);
  }

  // To the gateway

  private send(frames: AppFrame[], receipt?: string): void {
    const message = outgoing(frames, receipt);
    if (this.ready) {
      this.transmit(message);
    } else if (!this.held?.add(message)) {
      this.reportOffline(1);
    }
  }

  private transmit(message: Outgoing): void {
    if (!this.connection?.send(message.frames)) {
      this.reportOffline(1);
    } else if (this.receipts && message.receipt !== undefined) {
      this.unaccepted.add(message);
    }
  }

  /** First what may not have arrived on an earlier connection (T9), then what was held (T1). */
  private sendWaiting(): void {
    for (const message of this.unaccepted.repeatable()) this.connection?.send(message.frames);
    if (!this.receipts) this.unaccepted.clear();
    const held = this.held?.messages ?? [];
    this.held = undefined;
    for (const message of held) this.transmit(message);
  }

  /** Returns how many messages were held. */
  private dropHeld(): number {
    const count = this.held?.messages.length ?? 0;
    this.held = undefined;
    return count;
  }

  private reportOffline(messages: number): void {
    for (let n = 0; n < messages; n++) this.report('offline', 'Нет связи со шлюзом');
  }

  private report(code: string, message: string): void {
    this.handlers.onError?.({ code, message, fatal: false });
  }

  // From the gateway

  private receive(data: unknown): void {
    const frame = decode(data);
    switch (frame?.t) {
      case 'ready':
        this.welcome(frame.ready);
        break;
      case 'message':
        this.showMessage(frame.message);
        break;
      case 'typing':
        if (frame.stop) this.handlers.onTypingStop?.();
        else this.handlers.onTyping?.();
        break;
      case 'avatar':
        this.handlers.onAvatar?.(frame.state);
        break;
      case 'prompt':
        if (this.cards.add(frame.prompt.id)) this.handlers.onPrompt?.(frame.prompt);
        break;
      case 'prompt_done':
        this.unaccepted.settle(frame.done.id);
        this.handlers.onPromptDone?.(frame.done);
        break;
      case 'media':
        this.takeChunk(frame.chunk);
        break;
      case 'error':
        this.unaccepted.settle(frame.id);
        this.handlers.onError?.(frame.error);
        break;
      case 'accepted':
        this.unaccepted.settle(frame.id);
        break;
      case undefined:
        break;
    }
  }

  private showMessage(message: AgentMessage): void {
    const unseen = this.shown.show(message);
    if (unseen === undefined) return;
    if (unseen.edit) this.handlers.onMessageEdit?.(unseen);
    else this.handlers.onMessage?.(unseen);
  }

  private takeChunk(chunk: MediaPayload): void {
    if (this.files.has(chunk.id)) return;
    const file = this.assembly.add(chunk);
    if (file === undefined) return;
    this.files.add(file.id);
    this.handlers.onMedia?.(file);
  }
}

/** The error that a close code stands for where it is final (T3, T4). */
function refusalOf(code: number): ProtocolError | undefined {
  switch (code) {
    case REFUSED:
      return { code: 'auth_failed', message: 'Шлюз отказал в доступе', fatal: true };
    case REPLACED:
      return { code: 'replaced', message: 'Устройство подключилось в другом месте', fatal: true };
    default:
      return undefined;
  }
}
