/** One signed-in device: turns what the SDK reports into entries and a status, and sends. */

import { base64ToBytes, bytesToBase64, makeId } from './client.ts';
import type {
  AvatarState,
  ClientOptions,
  ConnectionState,
  HermesClient,
  MediaPayload,
  ProtocolError,
  ReadyPayload,
} from './client.ts';
import type { Card, Conversation, Entry, ReceivedFile } from './conversation.ts';
import { kindOf, MAX_FILE_BYTES, preview, safeType } from './files.ts';
import { Outgoing } from './outgoing.ts';
import type { Traffic } from './traffic.ts';
import { problem, type Problem } from './words.ts';

export interface Status {
  readonly connection: ConnectionState;
  /** How often the lost connection was tried, from 1; 0 while there is nothing to try. */
  readonly attempt: number;
  /** Why there is no connection. */
  readonly problem: Problem | null;
  /** Another tab has this device: it can be taken back. */
  readonly replaced: boolean;
  readonly avatar: AvatarState;
  /** A turn runs: the agent types. */
  readonly working: boolean;
  /** As the server has them; empty before the first connection. */
  readonly device: string;
  readonly address: string;
}

export interface SessionEvents {
  status(status: Status): void;
  /** The agent has said something that is complete, or asks. */
  heard(entry: Entry): void;
}

/** What a text may have where the server does not say (MAX_TEXT_CHARS). */
const MAX_TEXT_CHARS = 12_000;
/** A person who types is reported this often at most, in milliseconds. */
const TYPING_MS = 2_000;

const AT_FIRST: Status = {
  connection: 'idle',
  attempt: 0,
  problem: null,
  replaced: false,
  avatar: 'idle',
  working: false,
  device: '',
  address: '',
};

/** Codes that the SDK makes itself: the server has said nothing that would explain more. */
const OWN_CODES: ReadonlySet<string> = new Set(['auth_failed', 'offline', 'replaced', 'transport']);

export class Session {
  readonly #client: HermesClient;
  readonly #conversation: Conversation;
  readonly #events: SessionEvents;
  readonly #outgoing: Outgoing;
  #capabilities: Partial<ReadyPayload['capabilities']> = {};
  #status = AT_FIRST;
  #fatal: ProtocolError | null = null;
  #typedAt = -Infinity;

  constructor(
    open: (options: ClientOptions) => HermesClient,
    options: Omit<ClientOptions, 'handlers'>,
    conversation: Conversation,
    traffic: Traffic,
    events: SessionEvents,
  ) {
    this.#conversation = conversation;
    this.#events = events;
    this.#client = open({ ...options, handlers: this.#handlers() });
    this.#outgoing = new Outgoing({
      connected: () => this.#client.ready,
      resends: () => this.#capabilities.receipts === true,
      measure: (send) => traffic.measure(send),
      report: (entry, delivery) => conversation.deliver(entry, delivery),
    });
  }

  get status(): Status {
    return this.#status;
  }

  get maxFileBytes(): number {
    return this.#capabilities.max_media_bytes ?? MAX_FILE_BYTES;
  }

  get maxTextChars(): number {
    return this.#capabilities.max_text_chars ?? MAX_TEXT_CHARS;
  }

  /** Connects; also at once instead of after a pause, and again after another tab took over. */
  connect(): void {
    this.#fatal = null;
    this.#client.connect();
  }

  /** Ends it for good. */
  end(): void {
    this.#outgoing.clear();
    this.#client.setHandlers(silence());
    this.#client.disconnect();
  }

  say(text: string): void {
    const id = makeId();
    if (text.trim().toLowerCase() === '/stop') {
      // It must not wait behind a file, nor behind a lost connection until it stops something else.
      this.stop();
      return;
    }
    const entry = this.#conversation.say(text);
    this.#outgoing.send(entry, async () => () => this.#client.sendText(text, id));
  }

  stop(): void {
    const entry = this.#conversation.say('/stop');
    if (this.#client.ready) {
      this.#client.sendText('/stop');
      this.#conversation.deliver(entry, { state: 'sent' });
    } else {
      this.#conversation.deliver(entry, { state: 'failed', why: problem('offline').advice });
    }
  }

  share(file: File, caption: string): void {
    const messageId = makeId();
    const entry = this.#conversation.share(file, preview(file.type), caption);
    this.#outgoing.send(entry, async () => {
      const bytes = new Uint8Array(await file.arrayBuffer());
      const kind = kindOf(file.type, this.#capabilities.media_in ?? ['image', 'video', 'audio']);
      const options = {
        messageId,
        filename: file.name,
        ...(file.type !== '' && { mime: file.type }),
        ...(caption !== '' && { caption }),
      };
      return () => this.#client.sendMedia(kind, bytes, options);
    });
  }

  /** Sends a recording, a WAV file, as voice. */
  speak(recording: File): void {
    const id = makeId();
    const entry = this.#conversation.share(recording, 'audio', '');
    this.#outgoing.send(entry, async () => {
      const data = bytesToBase64(new Uint8Array(await recording.arrayBuffer()));
      return () => this.#client.sendAudio(data, 'wav', undefined, id);
    });
  }

  /** Answers a card, if it is still open and there is a connection. */
  answer(card: Card, optionId: string, text: string): void {
    if (card.answer.state !== 'open' || !this.#client.ready) return;
    this.#conversation.answering(card, optionId, text);
    this.#client.answerPrompt(card.prompt.id, optionId, text === '' ? undefined : text);
  }

  typing(): void {
    const now = Date.now();
    if (!this.#client.ready || now - this.#typedAt < TYPING_MS) return;
    this.#typedAt = now;
    this.#client.sendTyping();
  }

  #handlers(): Required<NonNullable<ClientOptions['handlers']>> {
    const conversation = this.#conversation;
    return {
      onState: (connection, detail) => this.#connectionIs(connection, detail),
      onReady: (ready) => {
        this.#capabilities = ready.capabilities;
        this.#update({ device: ready.device.id, address: ready.session });
        conversation.reopen();
        this.#outgoing.wake();
      },
      onMessage: (message) => this.#heard(conversation.receive(message), message.final),
      onMessageEdit: (message) => this.#heard(conversation.receive(message), message.final),
      onMedia: (media) => this.#heard(conversation.receiveFile(media.id, received(media)), true),
      onPrompt: (prompt) => this.#events.heard(conversation.ask(prompt)),
      onPromptDone: (done) => void conversation.close(done),
      onTyping: () => this.#update({ working: true }),
      onTypingStop: () => this.#update({ working: false }),
      onAvatar: (avatar) => this.#update({ avatar }),
      onError: (error) => this.#failed(error),
    };
  }

  #heard(entry: Entry & { id: string }, whole: boolean): void {
    if (!whole) return;
    this.#client.acknowledge(entry.id);
    this.#events.heard(entry);
  }

  #connectionIs(connection: ConnectionState, detail: string | undefined): void {
    if (connection === 'connected') {
      this.#update({ connection, attempt: 0, problem: null, replaced: false });
      return;
    }
    this.#conversation.dropUnfinishedFiles();
    const attempt = connection === 'reconnecting' ? number(detail) : 0;
    const lost = connection === 'reconnecting' ? problem('transport') : null;
    this.#update({ connection, attempt, problem: lost, working: false, avatar: 'idle' });
  }

  #failed(error: ProtocolError): void {
    if (error.fatal) {
      // The first word counts: after `forbidden` the close reports a general `auth_failed` (T3).
      this.#fatal ??= error;
      const { code } = this.#fatal;
      this.#update({ problem: problem(code), replaced: code === 'replaced' });
    } else if (error.code !== 'transport') {
      const detail = OWN_CODES.has(error.code) ? '' : error.message;
      this.#conversation.notice(problem(error.code), detail);
    }
  }

  #update(change: Partial<Status>): void {
    this.#status = { ...this.#status, ...change };
    this.#events.status(this.#status);
  }
}

/** A file of the agent, its bytes as a blob: the browser may keep those outside of the memory. */
function received({ kind, filename, mime, caption, data, url }: MediaPayload): ReceivedFile {
  const content =
    data === undefined
      ? (url ?? '')
      : new Blob([base64ToBytes(data) as BlobPart], { type: safeType(mime) });
  return { kind, name: filename === '' ? kind : filename, mime, caption, content };
}

/** The number in "попытка 3", the SDK's words for an attempt (T2). */
function number(detail: string | undefined): number {
  return Number(/\d+/.exec(detail ?? '')?.[0] ?? 0);
}

function silence(): Required<NonNullable<ClientOptions['handlers']>> {
  const nothing = (): void => {};
  return {
    onState: nothing,
    onReady: nothing,
    onMessage: nothing,
    onMessageEdit: nothing,
    onTyping: nothing,
    onTypingStop: nothing,
    onAvatar: nothing,
    onPrompt: nothing,
    onPromptDone: nothing,
    onMedia: nothing,
    onError: nothing,
  };
}
