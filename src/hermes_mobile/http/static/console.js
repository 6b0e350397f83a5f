"use strict";
(() => {
  // ../hermes-mobile-client/src/base64.ts
  var ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  var PAD = "=".charCodeAt(0);
  var NOT_BASE64 = 64;
  var CODE_OF_SEXTET = Uint8Array.from(ALPHABET, (char) => char.charCodeAt(0));
  var SEXTET_OF_CODE = new Uint8Array(128).fill(NOT_BASE64);
  CODE_OF_SEXTET.forEach((code2, sextet) => {
    SEXTET_OF_CODE[code2] = sextet;
  });
  var CODES_PER_CALL = 4096;
  function bytesToBase64(bytes) {
    const codes = new Uint8Array(Math.ceil(bytes.length / 3) * 4);
    let at = 0;
    for (let i = 0; i < bytes.length; i += 3) {
      const group = bytes[i] << 16 | bytes[i + 1] << 8 | bytes[i + 2];
      codes[at++] = CODE_OF_SEXTET[group >> 18];
      codes[at++] = CODE_OF_SEXTET[group >> 12 & 63];
      codes[at++] = CODE_OF_SEXTET[group >> 6 & 63];
      codes[at++] = CODE_OF_SEXTET[group & 63];
    }
    const padding = (3 - bytes.length % 3) % 3;
    codes.fill(PAD, codes.length - padding);
    return asciiToString(codes);
  }
  function asciiToString(codes) {
    const pieces2 = [];
    for (let at = 0; at < codes.length; at += CODES_PER_CALL) {
      const piece = codes.subarray(at, at + CODES_PER_CALL);
      pieces2.push(String.fromCharCode.apply(null, piece));
    }
    return pieces2.join("");
  }
  function base64ToBytes(input) {
    const bytes = new Uint8Array(Math.floor(input.length * 3 / 4));
    let length2 = 0;
    let bits = 0;
    let pending = 0;
    for (let i = 0; i < input.length; i++) {
      const sextet = SEXTET_OF_CODE[input.charCodeAt(i)] ?? NOT_BASE64;
      if (sextet === NOT_BASE64) continue;
      bits = bits << 6 | sextet;
      pending += 6;
      if (pending >= 8) {
        pending -= 8;
        bytes[length2++] = bits >> pending;
        bits &= (1 << pending) - 1;
      }
    }
    return length2 === bytes.length ? bytes : bytes.slice(0, length2);
  }
  function joinBase64(pieces2) {
    const seamless = pieces2.slice(0, -1).every((piece) => piece.length % 4 === 0 && !piece.endsWith("="));
    if (seamless) return pieces2.join("");
    const decoded = pieces2.map(base64ToBytes);
    const whole2 = new Uint8Array(decoded.reduce((length2, bytes) => length2 + bytes.length, 0));
    let at = 0;
    for (const bytes of decoded) {
      whole2.set(bytes, at);
      at += bytes.length;
    }
    return bytesToBase64(whole2);
  }

  // ../hermes-mobile-client/src/assembly.ts
  var MAX_FILES = 16;
  var MAX_BYTES = 32 * 1024 * 1024;
  var Assembly = class {
    files = /* @__PURE__ */ new Map();
    bytes = 0;
    /** Take one chunk; returns the file when this completes it. */
    add(chunk) {
      const { id, part, parts: parts2, data } = chunk;
      if (parts2 === 1 || data === void 0) {
        this.drop(id);
        return { ...chunk, part: parts2 - 1, final: true };
      }
      if (!Number.isInteger(part) || part < 0 || part >= parts2) return void 0;
      const file = this.open(chunk);
      if (file.data.has(part)) return void 0;
      file.data.set(part, data);
      file.about = merge(file.about, chunk);
      const bytes = Math.floor(data.length * 3 / 4);
      file.bytes += bytes;
      this.bytes += bytes;
      if (file.data.size === parts2) {
        this.drop(id);
        return whole(file);
      }
      this.keepWithinBounds();
      return void 0;
    }
    /** Forget all of them: after a disconnect they come again from the first chunk. */
    clear() {
      this.files.clear();
      this.bytes = 0;
    }
    open(chunk) {
      const known = this.files.get(chunk.id);
      if (known?.about.parts === chunk.parts) return known;
      this.drop(chunk.id);
      const file = { about: chunk, data: /* @__PURE__ */ new Map(), bytes: 0 };
      this.files.set(chunk.id, file);
      return file;
    }
    drop(id) {
      this.bytes -= this.files.get(id)?.bytes ?? 0;
      this.files.delete(id);
    }
    keepWithinBounds() {
      for (const oldest of this.files.keys()) {
        if (this.files.size <= MAX_FILES && this.bytes <= MAX_BYTES) return;
        this.drop(oldest);
      }
    }
  };
  function merge(known, chunk) {
    return {
      ...chunk,
      ...known,
      mime: known.mime || chunk.mime,
      filename: known.filename || chunk.filename,
      caption: known.caption || chunk.caption
    };
  }
  function whole({ about, data }) {
    const pieces2 = Array.from({ length: about.parts }, (_, part) => data.get(part) ?? "");
    return { ...about, part: about.parts - 1, final: true, data: joinBase64(pieces2) };
  }

  // ../hermes-mobile-client/src/backoff.ts
  var FIRST_CEILING_MS = 500;
  function backoffMs(n, maxMs, random = Math.random) {
    return random() * Math.min(maxMs, FIRST_CEILING_MS * 2 ** n);
  }

  // ../hermes-mobile-client/src/types.ts
  var PROTOCOL_VERSION = 1;
  var MEDIA_CHUNK_BYTES = 3 * 1024 * 1024;

  // ../hermes-mobile-client/src/frames.ts
  function encode(frame) {
    return JSON.stringify(frame);
  }
  function decode(data) {
    const frame = new Fields(parse(data));
    switch (frame.string("t").trim().toLowerCase()) {
      case "ready":
        return { t: "ready", ready: readyOf(frame) };
      case "message":
        return { t: "message", message: messageOf(frame) };
      case "typing":
        return { t: "typing", stop: frame.flag("stop") };
      case "avatar":
        return { t: "avatar", state: avatarStateOf(frame.string("state")) };
      case "prompt":
        return { t: "prompt", prompt: promptOf(frame) };
      case "prompt_done":
        return { t: "prompt_done", done: promptDoneOf(frame) };
      case "media":
        return { t: "media", chunk: mediaOf(frame) };
      case "error":
        return { t: "error", error: errorOf(frame), id: frame.string("id") };
      case "accepted":
        return { t: "accepted", id: frame.string("id") };
      default:
        return void 0;
    }
  }
  function parse(data) {
    if (typeof data !== "string") return void 0;
    try {
      return JSON.parse(data);
    } catch {
      return void 0;
    }
  }
  var Fields = class _Fields {
    fields;
    constructor(value) {
      this.fields = isObject(value) ? value : {};
    }
    string(name) {
      return this.optional(name) ?? "";
    }
    optional(name) {
      const value = this.fields[name];
      return typeof value === "string" ? value : void 0;
    }
    number(name, absent) {
      const value = this.fields[name];
      return typeof value === "number" ? value : absent;
    }
    flag(name) {
      return this.fields[name] === true;
    }
    object(name) {
      return new _Fields(this.fields[name]);
    }
    list(name) {
      const value = this.fields[name];
      return Array.isArray(value) ? value.map((item) => new _Fields(item)) : [];
    }
    /** The object as it came. */
    raw(name) {
      const value = this.fields[name];
      return isObject(value) ? value : {};
    }
  };
  function isObject(value) {
    return typeof value === "object" && value !== null && !Array.isArray(value);
  }
  function present(fields) {
    return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== void 0));
  }
  function readyOf(frame) {
    const device = frame.object("device");
    return {
      v: frame.number("v", PROTOCOL_VERSION),
      session: frame.string("session"),
      device: { id: device.string("id"), name: device.string("name") },
      avatar_url: frame.string("avatar_url"),
      capabilities: { text: true, voice: true, typing: true, ...frame.raw("capabilities") }
    };
  }
  function messageOf(frame) {
    const chunk = frame.object("chunk");
    return {
      id: frame.string("id"),
      text: frame.string("text"),
      index: chunk.number("index", 0),
      total: chunk.number("total", 1),
      final: frame.flag("final"),
      ...present({ edit: frame.flag("edit") || void 0 })
    };
  }
  function avatarStateOf(state) {
    return state === "thinking" || state === "speaking" ? state : "idle";
  }
  function promptOf(frame) {
    return {
      id: frame.string("id"),
      kind: frame.string("kind"),
      text: frame.string("text"),
      options: frame.list("options").map(optionOf),
      session: frame.string("session"),
      timeout_seconds: frame.number("timeout_seconds", 0),
      ...present({
        command: frame.optional("command"),
        description: frame.optional("description")
      })
    };
  }
  function optionOf(option) {
    return {
      id: option.string("id"),
      label: option.string("label"),
      ...present({ style: option.optional("style") })
    };
  }
  function promptDoneOf(frame) {
    return {
      id: frame.string("id"),
      ...present({
        option_id: frame.optional("option_id"),
        expired: frame.flag("expired") || void 0
      })
    };
  }
  function mediaOf(frame) {
    return {
      id: frame.string("id"),
      kind: frame.string("kind"),
      mime: frame.string("mime"),
      filename: frame.string("filename"),
      caption: frame.string("caption"),
      part: frame.number("part", 0),
      parts: frame.number("parts", 1),
      final: frame.flag("final"),
      size: frame.number("size", 0),
      ...present({
        data: frame.optional("data"),
        url: frame.optional("url"),
        reply_to: frame.optional("reply_to")
      })
    };
  }
  function errorOf(frame) {
    return {
      code: frame.string("code"),
      message: frame.string("message"),
      fatal: frame.flag("fatal")
    };
  }

  // ../hermes-mobile-client/src/keepAlive.ts
  var SAMPLE_MS = 1e3;
  var KeepAlive = class {
    link;
    intervalMs;
    timeoutMs;
    silence;
    deadline;
    sample;
    constructor(link3, intervalMs, timeoutMs) {
      this.link = link3;
      this.intervalMs = intervalMs;
      this.timeoutMs = timeoutMs;
    }
    /** Something arrived. What the app sends is no life: a dead link takes it, too. */
    received() {
      this.stop();
      if (this.intervalMs > 0) this.silence = setTimeout(() => this.ask(), this.intervalMs);
    }
    stop() {
      clearTimeout(this.silence);
      clearTimeout(this.deadline);
      clearTimeout(this.sample);
    }
    ask() {
      if (!this.link.ping()) {
        this.link.giveUp();
        return;
      }
      this.expectAnswer();
      this.watchUnsent();
    }
    expectAnswer() {
      clearTimeout(this.deadline);
      this.deadline = setTimeout(() => this.link.giveUp(), this.timeoutMs);
    }
    /** A long upload delays the pong; as long as its bytes move, the link lives. */
    watchUnsent() {
      const before = this.link.unsentBytes();
      this.sample = setTimeout(() => {
        if (this.link.unsentBytes() < before) this.expectAnswer();
        this.watchUnsent();
      }, SAMPLE_MS);
    }
  };

  // ../hermes-mobile-client/src/connection.ts
  var OPEN = 1;
  var NORMAL_CLOSURE = 1e3;
  var ABNORMAL_CLOSURE = 1006;
  var CLOSE_GRACE_MS = 1e3;
  var Connection = class {
    socket;
    events;
    keepAlive;
    closeDue;
    live = true;
    /** Throws what the runtime's WebSocket throws for a `url` that is none. */
    constructor(url, options, events) {
      this.events = events;
      this.keepAlive = new KeepAlive(
        {
          // React Native has no `bufferedAmount`.
          unsentBytes: () => this.socket.bufferedAmount ?? 0,
          ping: () => this.send([encode({ t: "ping", ts: Date.now() })]),
          giveUp: () => this.end(ABNORMAL_CLOSURE)
        },
        options.keepAliveMs,
        options.keepAliveTimeoutMs
      );
      this.socket = new WebSocket(url);
      this.socket.onopen = () => {
        if (!this.live) return;
        this.keepAlive.received();
        this.events.opened();
      };
      this.socket.onmessage = ({ data }) => {
        if (!this.live) return;
        this.keepAlive.received();
        this.events.received(data);
      };
      this.socket.onerror = () => {
        if (!this.live) return;
        this.closeDue = setTimeout(() => this.end(ABNORMAL_CLOSURE), CLOSE_GRACE_MS);
        this.events.failed();
      };
      this.socket.onclose = ({ code: code2 }) => this.end(code2);
    }
    /** Returns whether the socket was open to take the frames. */
    send(frames) {
      if (!this.live || this.socket.readyState !== OPEN) return false;
      for (const frame of frames) this.socket.send(frame);
      return true;
    }
    /** Close the socket, without waiting for it. */
    abandon() {
      this.live = false;
      this.keepAlive.stop();
      clearTimeout(this.closeDue);
      this.socket.close(NORMAL_CLOSURE);
    }
    end(code2) {
      if (!this.live) return;
      this.abandon();
      this.events.ended(code2);
    }
  };

  // ../hermes-mobile-client/src/id.ts
  function makeId() {
    return `${Date.now().toString(36)}-${randomSuffix()}`;
  }
  function randomSuffix() {
    const { crypto: crypto2 } = globalThis;
    const random = crypto2 ? crypto2.getRandomValues(new Uint32Array(2)) : Uint32Array.from([0, 0], () => Math.random() * 2 ** 32);
    return Array.from(random, (word) => word.toString(36)).join("");
  }

  // ../hermes-mobile-client/src/media.ts
  var KINDS = ["image", "video", "document", "audio"];
  var MIME_BY_EXTENSION = /* @__PURE__ */ new Map([
    ["aac", "audio/aac"],
    ["avif", "image/avif"],
    ["bmp", "image/bmp"],
    ["csv", "text/csv"],
    ["doc", "application/msword"],
    ["docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"],
    ["flac", "audio/flac"],
    ["gif", "image/gif"],
    ["gz", "application/gzip"],
    ["heic", "image/heic"],
    ["htm", "text/html"],
    ["html", "text/html"],
    ["jpeg", "image/jpeg"],
    ["jpg", "image/jpeg"],
    ["json", "application/json"],
    ["m4a", "audio/mp4"],
    ["md", "text/markdown"],
    ["mkv", "video/x-matroska"],
    ["mov", "video/quicktime"],
    ["mp3", "audio/mpeg"],
    ["mp4", "video/mp4"],
    ["oga", "audio/ogg"],
    ["ogg", "audio/ogg"],
    ["ogv", "video/ogg"],
    ["opus", "audio/ogg"],
    ["pdf", "application/pdf"],
    ["png", "image/png"],
    ["ppt", "application/vnd.ms-powerpoint"],
    ["pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"],
    ["svg", "image/svg+xml"],
    ["txt", "text/plain"],
    ["wav", "audio/wav"],
    ["webm", "video/webm"],
    ["webp", "image/webp"],
    ["xls", "application/vnd.ms-excel"],
    ["xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"],
    ["xml", "application/xml"],
    ["zip", "application/zip"]
  ]);
  function mediaFrames(id, kind, source, options) {
    const known = kind.toLowerCase();
    if (!KINDS.includes(known)) throw new Error(`kind: one of ${KINDS.join(", ")}`);
    const chunkBytes = options.chunkBytes ?? MEDIA_CHUNK_BYTES;
    if (!(Number.isInteger(chunkBytes) && chunkBytes > 0)) {
      throw new RangeError("chunkBytes: a positive integer");
    }
    const bytes = bytesOf(source);
    if (bytes.length === 0) throw new Error("source: an empty file");
    const filename = options.filename || nameOf(source);
    const parts2 = Math.ceil(bytes.length / chunkBytes);
    return Array.from({ length: parts2 }, (_, part) => ({
      t: "media",
      id,
      kind: known,
      mime: options.mime || guessMime(filename),
      data: bytesToBase64(bytes.subarray(part * chunkBytes, (part + 1) * chunkBytes)),
      part,
      parts: parts2,
      filename: filename || void 0,
      caption: options.caption || void 0
    }));
  }
  function bytesOf(source) {
    if (typeof source === "string") return base64ToBytes(source);
    if (ArrayBuffer.isView(source)) return source;
    return readFile(source.path);
  }
  function nameOf(source) {
    const path = typeof source === "object" && "path" in source ? source.path : "";
    return path.slice(Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")) + 1);
  }
  function guessMime(filename) {
    const extension = /\.(\w+)$/.exec(filename)?.[1]?.toLowerCase() ?? "";
    return MIME_BY_EXTENSION.get(extension) ?? "application/octet-stream";
  }
  function readFile(path) {
    const fs = globalThis.process?.getBuiltinModule?.("fs");
    if (!fs) throw new Error("source: a path can be read in Node only");
    return fs.readFileSync(path);
  }

  // ../hermes-mobile-client/src/outbox.ts
  var MAX_MESSAGES = 64;
  var MAX_FRAMES = 64;
  var MAX_SIZE = 16 * 1024 * 1024;
  var MAX_ID_CHARS = 128;
  function outgoing(frames, receipt) {
    const encoded = frames.map(encode);
    return {
      frames: encoded,
      size: encoded.reduce((size2, frame) => size2 + frame.length, 0),
      receipt: receipt && idOnTheWire(receipt)
    };
  }
  function idOnTheWire(id) {
    return Array.from(id.trim()).slice(0, MAX_ID_CHARS).join("");
  }
  var Held = class {
    messages = [];
    frames = 0;
    size = 0;
    /** Returns whether there was room. */
    add(message) {
      const frames = this.frames + message.frames.length;
      const size2 = this.size + message.size;
      if (frames > MAX_FRAMES || size2 > MAX_SIZE) return false;
      this.frames = frames;
      this.size = size2;
      this.messages.push(message);
      return true;
    }
  };
  var Unaccepted = class {
    messages = [];
    /** Too old or too large to be sent again; they may still be accepted. */
    unrepeatable = [];
    size = 0;
    add(message) {
      this.messages.push(message);
      this.size += message.size;
      while (this.messages.length > MAX_MESSAGES || this.size > MAX_SIZE) {
        const { receipt, size: size2 } = this.messages.shift();
        this.unrepeatable.push({ frames: [], size: 0, receipt });
        this.size -= size2;
      }
    }
    /** The gateway accepted the message, or refused it. */
    settle(receipt) {
      if (remove(this.unrepeatable, receipt)) return;
      this.size -= remove(this.messages, receipt)?.size ?? 0;
    }
    /** The connection ended; returns how many messages are given up. */
    connectionEnded() {
      return this.unrepeatable.splice(0).length;
    }
    /** The messages to send again. */
    repeatable() {
      return this.messages;
    }
    /** Forget all; returns how many there were. */
    clear() {
      const count = this.messages.length + this.unrepeatable.length;
      this.messages = [];
      this.unrepeatable = [];
      this.size = 0;
      return count;
    }
  };
  function remove(messages, receipt) {
    const index = messages.findIndex((message) => message.receipt === receipt);
    return index < 0 ? void 0 : messages.splice(index, 1)[0];
  }

  // ../hermes-mobile-client/src/repeats.ts
  var REMEMBERED_IDS = 256;
  var Recent = class {
    values = /* @__PURE__ */ new Map();
    get(id) {
      return this.values.get(id);
    }
    set(id, value) {
      this.values.delete(id);
      this.values.set(id, value);
      if (this.values.size > REMEMBERED_IDS) {
        const [oldest] = this.values.keys();
        this.values.delete(oldest);
      }
    }
  };
  var Once = class {
    ids = new Recent();
    has(id) {
      return this.ids.get(id) === true;
    }
    /** Returns whether the id is new. */
    add(id) {
      const isNew = !this.has(id);
      this.ids.set(id, true);
      return isNew;
    }
  };
  var ShownMessages = class {
    pieces = new Recent();
    connection = 0;
    /** The connection ended: what the gateway does not know to have arrived, it tells again (D32). */
    connectionEnded() {
      this.connection += 1;
    }
    /** Returns the message as the app is to get it, or undefined for a repeat. */
    show(message) {
      const pieces2 = this.pieces.get(message.id) ?? /* @__PURE__ */ new Map();
      const before = pieces2.get(message.index);
      pieces2.set(message.index, { message, connection: this.connection });
      this.pieces.set(message.id, pieces2);
      if (before === void 0) return message;
      const beginsAnew = before.connection !== this.connection && message.edit !== true;
      const known = before.message;
      const unchanged = known.text === message.text && known.final === message.final;
      if (unchanged && (beginsAnew || known.edit === message.edit)) return void 0;
      return beginsAnew ? { ...message, edit: true } : message;
    }
  };

  // ../hermes-mobile-client/src/hermesClient.ts
  var MAX_BACKOFF_MS = 15e3;
  var KEEP_ALIVE_MS = 25e3;
  var KEEP_ALIVE_TIMEOUT_MS = 45e3;
  var STABLE_MS = 1e4;
  var REFUSED = 1008;
  var REPLACED = 4001;
  var HermesClient = class {
    options;
    handlers;
    state = "idle";
    connection;
    attempts = 0;
    retry;
    stable;
    /** There between `connect()` and the first `ready`. */
    held;
    unaccepted = new Unaccepted();
    receipts = false;
    assembly = new Assembly();
    shown = new ShownMessages();
    files = new Once();
    cards = new Once();
    constructor(options) {
      this.options = options;
      this.handlers = { ...options.handlers };
    }
    /** Whether the state is `connected`: what is sent goes out at once. */
    get ready() {
      return this.state === "connected";
    }
    /** Set callbacks in addition to, or in place of, those already set. */
    setHandlers(handlers) {
      this.handlers = { ...this.handlers, ...handlers };
    }
    /**
     * Connect, and stay connected until `disconnect()` or a refusal.
     *
     * While connecting or connected it does nothing; while reconnecting it skips the pause. Throws
     * what the runtime's WebSocket throws for a `url` that is no WebSocket address.
     */
    connect() {
      if (this.connection !== void 0) return;
      const fromRest = this.state !== "reconnecting";
      this.open();
      if (!fromRest) return;
      this.attempts = 0;
      this.held = new Held();
      this.setState("connecting");
    }
    /** Close the connection and stay away. What is still held is reported as `offline` (T1). */
    disconnect() {
      clearTimeout(this.retry);
      this.connection?.abandon();
      const lost = this.forgetConnection() + this.dropHeld();
      this.setState("idle");
      this.reportOffline(lost);
    }
    /** Send a text; returns its id. The gateway drops a repeat with the same id. */
    sendText(text, messageId) {
      const id = messageId || makeId();
      this.send([{ t: "text", id, text }], id);
      return id;
    }
    /** Send a voice recording in base64, with its words if the app knows them; returns its id. */
    sendAudio(base64, format, transcript, messageId) {
      const id = messageId || makeId();
      this.send([{ t: "audio", id, format, data: base64, text: transcript || void 0 }], id);
      return id;
    }
    /** The person is typing. */
    sendTyping() {
      this.send([{ t: "typing" }]);
    }
    /** The app has shown or played the message with this id. */
    acknowledge(messageId) {
      this.send([{ t: "ack", id: messageId }]);
    }
    ping() {
      this.send([{ t: "ping", ts: Date.now() }]);
    }
    /**
     * Answer a card with one of its options, in words, or both (`other` of a `clarify`).
     *
     * Throws Error without a `promptId`, and without an answer. Which option counts in the end is in
     * `onPromptDone`.
     */
    answerPrompt(promptId, optionId, text) {
      if (!promptId) throw new Error("promptId: missing");
      if (!optionId && !text) throw new Error("optionId, text: one of them is needed");
      this.send(
        [
          {
            t: "prompt",
            prompt_id: promptId,
            option_id: optionId?.toLowerCase() || void 0,
            text: text || void 0
          }
        ],
        promptId
      );
    }
    /**
     * Send a file in chunks; returns its id. `kind` is `image`, `video`, `document` or `audio`.
     *
     * Throws Error for another kind, an empty file, and a `path` that cannot be read.
     */
    sendMedia(kind, source, options = {}) {
      const id = options.messageId || makeId();
      this.send(mediaFrames(id, kind, source, options), id);
      return id;
    }
    sendImage(source, options) {
      return this.sendMedia("image", source, options);
    }
    sendDocument(source, options) {
      return this.sendMedia("document", source, options);
    }
    sendVoice(source, options) {
      return this.sendMedia("audio", source, options);
    }
    // The life of a connection
    open() {
      clearTimeout(this.retry);
      const { url, keepAliveMs, keepAliveTimeoutMs } = this.options;
      this.connection = new Connection(
        url,
        {
          keepAliveMs: keepAliveMs ?? KEEP_ALIVE_MS,
          keepAliveTimeoutMs: keepAliveTimeoutMs ?? KEEP_ALIVE_TIMEOUT_MS
        },
        {
          opened: () => this.sayHello(),
          received: (data) => this.receive(data),
          failed: () => this.report("transport", "Ошибка соединения со шлюзом"),
          ended: (code2) => this.connectionEnded(code2)
        }
      );
    }
    sayHello() {
      const { token, device, user } = this.options;
      const hello = encode({
        t: "hello",
        v: PROTOCOL_VERSION,
        token,
        device: {
          id: device.id,
          name: device.name,
          platform: device.platform,
          app_version: device.appVersion
        },
        user: { ...user },
        receipts: true
      });
      this.connection?.send([hello]);
    }
    welcome(ready) {
      this.receipts = ready.capabilities.receipts === true;
      this.stable = setTimeout(() => {
        this.attempts = 0;
      }, STABLE_MS);
      this.sendWaiting();
      this.setState("connected");
      if (this.ready) this.handlers.onReady?.(ready);
    }
    connectionEnded(code2) {
      let lost = this.forgetConnection();
      const refusal2 = refusalOf(code2);
      if (refusal2 === void 0) {
        this.scheduleRetry();
      } else {
        lost += this.dropHeld();
        if (code2 === REFUSED) lost += this.unaccepted.clear();
        this.setState("failed");
        this.handlers.onError?.(refusal2);
      }
      this.reportOffline(lost);
    }
    /** Returns how many messages are given up with the connection. */
    forgetConnection() {
      clearTimeout(this.stable);
      this.connection = void 0;
      this.assembly.clear();
      this.shown.connectionEnded();
      return this.unaccepted.connectionEnded();
    }
    scheduleRetry() {
      const pause = backoffMs(this.attempts, this.options.maxBackoffMs ?? MAX_BACKOFF_MS);
      this.attempts += 1;
      this.retry = setTimeout(() => this.open(), pause);
      this.setState("reconnecting", `попытка ${this.attempts}`);
    }
    setState(state, detail) {
      if (state === this.state && detail === void 0) return;
      this.state = state;
      this.handlers.onState?.(state, detail);
    }
    // To the gateway
    send(frames, receipt) {
      const message = outgoing(frames, receipt);
      if (this.ready) {
        this.transmit(message);
      } else if (!this.held?.add(message)) {
        this.reportOffline(1);
      }
    }
    transmit(message) {
      if (!this.connection?.send(message.frames)) {
        this.reportOffline(1);
      } else if (this.receipts && message.receipt !== void 0) {
        this.unaccepted.add(message);
      }
    }
    /** First what may not have arrived on an earlier connection (T9), then what was held (T1). */
    sendWaiting() {
      for (const message of this.unaccepted.repeatable()) this.connection?.send(message.frames);
      if (!this.receipts) this.unaccepted.clear();
      const held = this.held?.messages ?? [];
      this.held = void 0;
      for (const message of held) this.transmit(message);
    }
    /** Returns how many messages were held. */
    dropHeld() {
      const count = this.held?.messages.length ?? 0;
      this.held = void 0;
      return count;
    }
    reportOffline(messages) {
      for (let n = 0; n < messages; n++) this.report("offline", "Нет связи со шлюзом");
    }
    report(code2, message) {
      this.handlers.onError?.({ code: code2, message, fatal: false });
    }
    // From the gateway
    receive(data) {
      const frame = decode(data);
      switch (frame?.t) {
        case "ready":
          this.welcome(frame.ready);
          break;
        case "message":
          this.showMessage(frame.message);
          break;
        case "typing":
          if (frame.stop) this.handlers.onTypingStop?.();
          else this.handlers.onTyping?.();
          break;
        case "avatar":
          this.handlers.onAvatar?.(frame.state);
          break;
        case "prompt":
          if (this.cards.add(frame.prompt.id)) this.handlers.onPrompt?.(frame.prompt);
          break;
        case "prompt_done":
          this.unaccepted.settle(frame.done.id);
          this.handlers.onPromptDone?.(frame.done);
          break;
        case "media":
          this.takeChunk(frame.chunk);
          break;
        case "error":
          this.unaccepted.settle(frame.id);
          this.handlers.onError?.(frame.error);
          break;
        case "accepted":
          this.unaccepted.settle(frame.id);
          break;
        case void 0:
          break;
      }
    }
    showMessage(message) {
      const unseen = this.shown.show(message);
      if (unseen === void 0) return;
      if (unseen.edit) this.handlers.onMessageEdit?.(unseen);
      else this.handlers.onMessage?.(unseen);
    }
    takeChunk(chunk) {
      if (this.files.has(chunk.id)) return;
      const file = this.assembly.add(chunk);
      if (file === void 0) return;
      this.files.add(file.id);
      this.handlers.onMedia?.(file);
    }
  };
  function refusalOf(code2) {
    switch (code2) {
      case REFUSED:
        return { code: "auth_failed", message: "Шлюз отказал в доступе", fatal: true };
      case REPLACED:
        return { code: "replaced", message: "Устройство подключилось в другом месте", fatal: true };
      default:
        return void 0;
    }
  }

  // src/config.ts
  function configFrom(answer, page) {
    const fields = typeof answer === "object" && answer !== null ? answer : {};
    const version = "version" in fields && typeof fields.version === "string" ? fields.version : "";
    if ("ws_url" in fields && typeof fields.ws_url === "string") {
      return { url: fields.ws_url, version };
    }
    if ("path" in fields && typeof fields.path === "string") {
      const scheme = page.protocol === "https:" ? "wss:" : "ws:";
      return { url: `${scheme}//${page.host}${fields.path}`, version };
    }
    throw new Error("config.json names no address");
  }
  async function loadConfig() {
    const response = await fetch("config.json", { cache: "no-store" });
    if (!response.ok) throw new Error(`config.json: status ${response.status}`);
    return configFrom(await response.json(), new URL(location.href));
  }

  // src/conversation.ts
  var MAX_ENTRIES = 500;
  var Conversation = class {
    #audience;
    #now;
    #entries = [];
    #count = 0;
    constructor(audience, now = Date.now) {
      this.#audience = audience;
      this.#now = now;
    }
    get entries() {
      return this.#entries;
    }
    say(text) {
      return this.#add({ ...this.#common(), kind: "said", text, delivery: { state: "waiting" } });
    }
    share(file, preview2, caption) {
      const delivery = { state: "waiting" };
      return this.#add({ ...this.#common(), kind: "shared", file, preview: preview2, caption, delivery });
    }
    deliver(entry, delivery) {
      entry.delivery = delivery;
      this.#audience.changed(entry);
    }
    notice(problem2, detail = "") {
      this.#add({ ...this.#common(), kind: "notice", problem: problem2, detail });
    }
    /**
     * Takes a piece of a message, or a newer state of it, and joins it to its others by id and number.
     * A piece that is there already changes nothing (T8); an id that is used again after its end is a
     * new message.
     */
    receive(message) {
      const { id, index, text } = message;
      let reply = this.#last((entry) => entry.kind === "reply" && entry.id === id);
      if (reply?.finished) {
        if (!message.edit && reply.pieces[index] === text) return reply;
        reply = void 0;
      }
      if (reply === void 0) {
        const finished = message.final;
        return this.#add({
          ...this.#common(),
          kind: "reply",
          id,
          pieces: pieces(index, text),
          finished
        });
      }
      if (message.edit) reply.pieces.length = 0;
      reply.pieces[message.edit ? 0 : index] = text;
      reply.finished = message.final;
      this.#audience.changed(reply);
      return reply;
    }
    /** Takes note that `arrived`, from 0 to 1, of a file is here. */
    arriving(id, arrived) {
      const entry = this.#unfinishedFile(id);
      if (entry === void 0) {
        this.#add({ ...this.#common(), kind: "received", id, arrived, file: null });
      } else {
        entry.arrived = arrived;
        this.#audience.changed(entry);
      }
    }
    receiveFile(id, file) {
      const entry = this.#unfinishedFile(id);
      if (entry === void 0) {
        return this.#add({ ...this.#common(), kind: "received", id, arrived: 1, file });
      }
      entry.arrived = 1;
      entry.file = file;
      this.#audience.changed(entry);
      return entry;
    }
    /** Shows a card. One that is open already stays: the server shows it anew after a reconnection. */
    ask(prompt) {
      const shown = this.card(prompt.id);
      if (shown !== void 0) return shown;
      const deadline = this.#now() + prompt.timeout_seconds * 1e3;
      return this.#add({
        ...this.#common(),
        kind: "card",
        prompt,
        deadline,
        answer: { state: "open" }
      });
    }
    /** The card of that id that was shown last. */
    card(id) {
      return this.#last((entry) => entry.kind === "card" && entry.prompt.id === id);
    }
    answering(card, optionId, text) {
      card.answer = { state: "answering", optionId, text };
      this.#audience.changed(card);
    }
    /** Opens again the cards whose answers may have been lost: the first one counts (D21). */
    reopen() {
      for (const entry of this.#entries) {
        if (entry.kind === "card" && entry.answer.state === "answering") {
          entry.answer = { state: "open" };
          this.#audience.changed(entry);
        }
      }
    }
    /** Closes a card with the option that counts, which need not be the one that was chosen. */
    close(done) {
      const card = this.card(done.id);
      if (card === void 0 || card.answer.state === "closed") return card;
      const optionId = done.option_id ?? "";
      if (done.expired === true || optionId === "") {
        card.answer = { state: "expired" };
      } else {
        const chosen = card.answer.state === "answering" ? card.answer : { optionId, text: "" };
        const instead = chosen.optionId === optionId ? "" : chosen.optionId;
        card.answer = { state: "closed", optionId, text: chosen.text, instead };
      }
      this.#audience.changed(card);
      return card;
    }
    /** Drops what a lost connection has left half arrived: it comes again from its first part. */
    dropUnfinishedFiles() {
      const lost = this.#entries.filter((entry) => entry.kind === "received" && entry.file === null);
      for (const entry of lost) this.#remove(entry);
    }
    clear() {
      for (const entry of [...this.#entries]) this.#remove(entry);
    }
    #common() {
      this.#count += 1;
      return { key: `entry-${this.#count}`, time: this.#now() };
    }
    #add(entry) {
      this.#entries.push(entry);
      this.#audience.added(entry);
      const oldest = this.#entries.find((other) => !isPending(other));
      if (this.#entries.length > MAX_ENTRIES && oldest !== void 0) this.#remove(oldest);
      return entry;
    }
    #remove(entry) {
      this.#entries = this.#entries.filter((other) => other !== entry);
      this.#audience.removed(entry);
    }
    #last(wanted) {
      for (let at = this.#entries.length - 1; at >= 0; at--) {
        const entry = this.#entries[at];
        if (wanted(entry)) return entry;
      }
      return void 0;
    }
    #unfinishedFile(id) {
      return this.#last(
        (entry) => entry.kind === "received" && entry.id === id && entry.file === null
      );
    }
  };
  function textOf(reply) {
    return reply.pieces.join("");
  }
  function pieces(index, text) {
    const list2 = [];
    list2[index] = text;
    return list2;
  }
  function isPending(entry) {
    switch (entry.kind) {
      case "card":
        return entry.answer.state === "open" || entry.answer.state === "answering";
      case "said":
      case "shared":
        return entry.delivery.state === "waiting" || entry.delivery.state === "sending";
      default:
        return false;
    }
  }

  // src/identity.ts
  function linkIn(fragment) {
    const fields = new URLSearchParams(fragment.replace(/^#/, ""));
    const token = fields.get("token")?.trim() ?? "";
    if (token === "") return null;
    return { token, device: fields.get("device")?.trim() ?? "" };
  }
  function takeLink(location2, history2) {
    const link3 = linkIn(location2.hash);
    if (link3 !== null) {
      history2.replaceState(null, "", location2.pathname);
    }
    return link3;
  }
  var DEVICE_KEY = "hermes-mobile.device";
  function deviceId(storage2) {
    try {
      const kept = storage2().getItem(DEVICE_KEY);
      if (kept !== null && kept !== "") return kept;
    } catch {
    }
    return `web-${crypto.randomUUID().slice(0, 8)}`;
  }
  function keepDeviceId(storage2, id) {
    try {
      storage2().setItem(DEVICE_KEY, id);
    } catch {
    }
  }

  // src/notifications.ts
  var MAX_BODY = 140;
  function offerNotifications(button) {
    if (!("Notification" in window) || !window.isSecureContext) return;
    const show2 = () => {
      button.hidden = Notification.permission !== "default";
    };
    button.addEventListener("click", () => {
      Notification.requestPermission().then(show2, show2);
    });
    show2();
  }
  function notify(text) {
    if (!document.hidden || !("Notification" in window)) return;
    if (Notification.permission !== "granted") return;
    try {
      const body = text.length > MAX_BODY ? `${text.slice(0, MAX_BODY)}…` : text;
      const notification = new Notification("Hermes", {
        body,
        icon: "icon.svg",
        tag: "hermes-mobile"
      });
      notification.addEventListener("click", () => {
        window.focus();
        notification.close();
      });
    } catch {
    }
  }

  // src/words.ts
  function size(bytes) {
    if (bytes < 1024) return bytes === 1 ? "1 byte" : `${bytes} bytes`;
    const kilo = bytes / 1024;
    if (kilo < 1024) return `${Math.round(kilo)} KB`;
    const mega = kilo / 1024;
    return `${mega < 10 ? mega.toFixed(1).replace(/\.0$/, "") : Math.round(mega)} MB`;
  }
  function minutes(seconds) {
    const whole2 = Math.max(0, Math.ceil(seconds));
    return `${Math.floor(whole2 / 60)}:${String(whole2 % 60).padStart(2, "0")}`;
  }
  function clock(time) {
    return new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  }
  function length(text) {
    let count = 0;
    for (const _ of text) count++;
    return count;
  }
  var PROBLEMS = {
    auth_failed: {
      title: "Access denied",
      advice: "The token is not valid here, or the server does not admit this device. Check both with whoever runs the server."
    },
    auth_required: {
      title: "Sign in first",
      advice: "The server wants a token before anything else."
    },
    forbidden: {
      title: "Not allowed",
      advice: "This token may not do that, or the device name belongs to another token. Use the token that this device was given, or another device name."
    },
    too_big: {
      title: "Too big",
      advice: "The server does not take this much at once. Split it, or make it smaller."
    },
    bad_frame: {
      title: "Not understood",
      advice: "The server could not read what this page sent. Reloading the page may help."
    },
    unsupported_frame: {
      title: "Not supported",
      advice: "The agent does not take this kind of file or recording."
    },
    device_offline: {
      title: "Device offline",
      advice: "The device that this was meant for is not connected. Try again later."
    },
    internal_error: {
      title: "That did not work",
      advice: "Something went wrong on the server’s side. You can send it again."
    },
    replaced: {
      title: "Open somewhere else",
      advice: "Another tab or window uses this device now, so this one has stopped."
    },
    offline: {
      title: "Not sent",
      advice: "There was no connection to the server."
    },
    transport: {
      title: "No connection",
      advice: "The server cannot be reached."
    }
  };
  function problem(code2) {
    return (Object.hasOwn(PROBLEMS, code2) ? PROBLEMS[code2] : void 0) ?? {
      title: "Something went wrong",
      advice: `The server reported “${code2}”.`
    };
  }

  // src/files.ts
  var MAX_FILE_BYTES = 8 * 1024 * 1024;
  var PREVIEWS = {
    "image/png": "image",
    "image/jpeg": "image",
    "image/gif": "image",
    "image/webp": "image",
    "image/avif": "image",
    "image/bmp": "image",
    "video/mp4": "video",
    "video/webm": "video",
    "video/ogg": "video",
    "video/quicktime": "video",
    "audio/mpeg": "audio",
    "audio/mp4": "audio",
    "audio/aac": "audio",
    "audio/ogg": "audio",
    "audio/opus": "audio",
    "audio/webm": "audio",
    "audio/flac": "audio",
    "audio/wav": "audio",
    "audio/x-wav": "audio"
  };
  function essence(mime) {
    return (mime.split(";")[0] ?? "").trim().toLowerCase();
  }
  function preview(mime) {
    const type = essence(mime);
    return Object.hasOwn(PREVIEWS, type) ? PREVIEWS[type] ?? "none" : "none";
  }
  function safeType(mime) {
    return preview(mime) === "none" ? "application/octet-stream" : essence(mime);
  }
  function kindOf(mime, accepted) {
    const family = essence(mime).split("/")[0];
    if (family !== "image" && family !== "video" && family !== "audio") return "document";
    return accepted.includes(family) ? family : "document";
  }
  function refusal(file, limit) {
    if (file.size === 0) return `“${file.name}” is empty, or it is a folder.`;
    if (file.size > limit) {
      return `“${file.name}” has ${size(file.size)}. The most that can be sent is ${size(limit)}.`;
    }
    return null;
  }

  // src/outgoing.ts
  var POLL_MS = 50;
  var Outgoing = class {
    #way;
    #queue = [];
    #running = false;
    #wake = () => {
    };
    constructor(way) {
      this.#way = way;
    }
    send(entry, prepare) {
      this.#queue.push({ entry, prepare });
      void this.#run();
    }
    /** Goes on: there is a connection again. */
    wake() {
      this.#wake();
    }
    clear() {
      this.#queue = [];
    }
    async #run() {
      if (this.#running) return;
      this.#running = true;
      for (let next = this.#queue.shift(); next !== void 0; next = this.#queue.shift()) {
        await this.#post(next);
      }
      this.#running = false;
    }
    async #post(parcel) {
      const { entry, prepare } = parcel;
      await this.#connection();
      let progress;
      try {
        const send = await prepare();
        await this.#connection();
        progress = this.#way.measure(send);
      } catch {
        this.#way.report(entry, { state: "failed", why: "It could not be read." });
        return;
      }
      let done = progress();
      while (done !== null && done < 1) {
        this.#way.report(entry, { state: "sending", progress: done });
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
        done = progress();
      }
      if (done === null && !this.#way.resends()) {
        this.#way.report(entry, { state: "waiting" });
        this.#queue.unshift(parcel);
      } else {
        await this.#connection();
        this.#way.report(entry, { state: "sent" });
      }
    }
    async #connection() {
      while (!this.#way.connected()) {
        await new Promise((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  };

  // src/session.ts
  var MAX_TEXT_CHARS = 12e3;
  var TYPING_MS = 2e3;
  var AT_FIRST = {
    connection: "idle",
    attempt: 0,
    problem: null,
    replaced: false,
    avatar: "idle",
    working: false,
    device: "",
    address: ""
  };
  var OWN_CODES = /* @__PURE__ */ new Set(["auth_failed", "offline", "replaced", "transport"]);
  var Session = class {
    #client;
    #conversation;
    #events;
    #outgoing;
    #capabilities = {};
    #status = AT_FIRST;
    #fatal = null;
    #typedAt = -Infinity;
    constructor(open, options, conversation2, traffic2, events) {
      this.#conversation = conversation2;
      this.#events = events;
      this.#client = open({ ...options, handlers: this.#handlers() });
      this.#outgoing = new Outgoing({
        connected: () => this.#client.ready,
        resends: () => this.#capabilities.receipts === true,
        measure: (send) => traffic2.measure(send),
        report: (entry, delivery) => conversation2.deliver(entry, delivery)
      });
    }
    get status() {
      return this.#status;
    }
    get maxFileBytes() {
      return this.#capabilities.max_media_bytes ?? MAX_FILE_BYTES;
    }
    get maxTextChars() {
      return this.#capabilities.max_text_chars ?? MAX_TEXT_CHARS;
    }
    /** Connects; also at once instead of after a pause, and again after another tab took over. */
    connect() {
      this.#fatal = null;
      this.#client.connect();
    }
    /** Ends it for good. */
    end() {
      this.#outgoing.clear();
      this.#client.setHandlers(silence());
      this.#client.disconnect();
    }
    say(text) {
      const id = makeId();
      if (text.trim().toLowerCase() === "/stop") {
        this.stop();
        return;
      }
      const entry = this.#conversation.say(text);
      this.#outgoing.send(entry, async () => () => this.#client.sendText(text, id));
    }
    stop() {
      const entry = this.#conversation.say("/stop");
      if (this.#client.ready) {
        this.#client.sendText("/stop");
        this.#conversation.deliver(entry, { state: "sent" });
      } else {
        this.#conversation.deliver(entry, { state: "failed", why: problem("offline").advice });
      }
    }
    share(file, caption) {
      const messageId = makeId();
      const entry = this.#conversation.share(file, preview(file.type), caption);
      this.#outgoing.send(entry, async () => {
        const bytes = new Uint8Array(await file.arrayBuffer());
        const kind = kindOf(file.type, this.#capabilities.media_in ?? ["image", "video", "audio"]);
        const options = {
          messageId,
          filename: file.name,
          ...file.type !== "" && { mime: file.type },
          ...caption !== "" && { caption }
        };
        return () => this.#client.sendMedia(kind, bytes, options);
      });
    }
    /** Sends a recording, a WAV file, as voice. */
    speak(recording) {
      const id = makeId();
      const entry = this.#conversation.share(recording, "audio", "");
      this.#outgoing.send(entry, async () => {
        const data = bytesToBase64(new Uint8Array(await recording.arrayBuffer()));
        return () => this.#client.sendAudio(data, "wav", void 0, id);
      });
    }
    /** Answers a card, if it is still open and there is a connection. */
    answer(card, optionId, text) {
      if (card.answer.state !== "open" || !this.#client.ready) return;
      this.#conversation.answering(card, optionId, text);
      this.#client.answerPrompt(card.prompt.id, optionId, text === "" ? void 0 : text);
    }
    typing() {
      const now = Date.now();
      if (!this.#client.ready || now - this.#typedAt < TYPING_MS) return;
      this.#typedAt = now;
      this.#client.sendTyping();
    }
    #handlers() {
      const conversation2 = this.#conversation;
      return {
        onState: (connection, detail) => this.#connectionIs(connection, detail),
        onReady: (ready) => {
          this.#capabilities = ready.capabilities;
          this.#update({ device: ready.device.id, address: ready.session });
          conversation2.reopen();
          this.#outgoing.wake();
        },
        onMessage: (message) => this.#heard(conversation2.receive(message), message.final),
        onMessageEdit: (message) => this.#heard(conversation2.receive(message), message.final),
        onMedia: (media) => this.#heard(conversation2.receiveFile(media.id, received(media)), true),
        onPrompt: (prompt) => this.#events.heard(conversation2.ask(prompt)),
        onPromptDone: (done) => void conversation2.close(done),
        onTyping: () => this.#update({ working: true }),
        onTypingStop: () => this.#update({ working: false }),
        onAvatar: (avatar) => this.#update({ avatar }),
        onError: (error) => this.#failed(error)
      };
    }
    #heard(entry, whole2) {
      if (!whole2) return;
      this.#client.acknowledge(entry.id);
      this.#events.heard(entry);
    }
    #connectionIs(connection, detail) {
      if (connection === "connected") {
        this.#update({ connection, attempt: 0, problem: null, replaced: false });
        return;
      }
      this.#conversation.dropUnfinishedFiles();
      const attempt = connection === "reconnecting" ? number(detail) : 0;
      const lost = connection === "reconnecting" ? problem("transport") : null;
      this.#update({ connection, attempt, problem: lost, working: false, avatar: "idle" });
    }
    #failed(error) {
      if (error.fatal) {
        this.#fatal ??= error;
        const { code: code2 } = this.#fatal;
        this.#update({ problem: problem(code2), replaced: code2 === "replaced" });
      } else if (error.code !== "transport") {
        const detail = OWN_CODES.has(error.code) ? "" : error.message;
        this.#conversation.notice(problem(error.code), detail);
      }
    }
    #update(change) {
      this.#status = { ...this.#status, ...change };
      this.#events.status(this.#status);
    }
  };
  function received({ kind, filename, mime, caption, data, url }) {
    const content = data === void 0 ? url ?? "" : new Blob([base64ToBytes(data)], { type: safeType(mime) });
    return { kind, name: filename === "" ? kind : filename, mime, caption, content };
  }
  function number(detail) {
    return Number(/\d+/.exec(detail ?? "")?.[0] ?? 0);
  }
  function silence() {
    const nothing = () => {
    };
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
      onError: nothing
    };
  }

  // src/traffic.ts
  var OPEN2 = 1;
  var Traffic = class {
    #socket = null;
    #arriving;
    constructor(arriving2) {
      this.#arriving = arriving2;
    }
    /** Returns a socket class to be used in place of `Socket`, which reports here. */
    watch(Socket) {
      const opened = (socket) => {
        this.#socket = socket;
      };
      const heard2 = (data) => this.#heard(data);
      return class extends Socket {
        queued = 0;
        constructor(url, protocols) {
          super(url, protocols);
          opened(this);
          this.addEventListener("message", (event) => heard2(event.data));
        }
        send(data) {
          const before = this.bufferedAmount;
          super.send(data);
          this.queued += this.bufferedAmount - before;
        }
      };
    }
    /** Runs `send`, and returns how far what it sent has got. */
    measure(send) {
      const socket = this.#socket;
      const start = socket?.queued ?? 0;
      send();
      const end = socket?.queued ?? 0;
      return () => {
        if (socket === null || socket !== this.#socket || socket.readyState !== OPEN2) return null;
        if (end === start) return 1;
        const left = socket.queued - socket.bufferedAmount;
        return Math.max(0, Math.min(1, (left - start) / (end - start)));
      };
    }
    /** A look at a chunk on its way to the SDK, which will assemble the file. */
    #heard(data) {
      if (typeof data !== "string" || !data.slice(0, 200).includes('"media"')) return;
      let frame;
      try {
        frame = JSON.parse(data);
      } catch {
        return;
      }
      if (typeof frame !== "object" || frame === null) return;
      const { t, id, part, parts: parts2 } = frame;
      if (t !== "media" || typeof id !== "string") return;
      if (typeof part !== "number" || typeof parts2 !== "number" || part + 1 >= parts2) return;
      this.#arriving(id, (part + 1) / parts2);
    }
  };

  // src/view/dom.ts
  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== false) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children);
    return made;
  }
  function find(id, type) {
    const found = document.getElementById(id);
    if (!(found instanceof type)) throw new Error(`the page has no ${type.name} #${id}`);
    return found;
  }
  var SVG = "http://www.w3.org/2000/svg";
  function icon(name) {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("class", "icon");
    svg.setAttribute("aria-hidden", "true");
    const use = document.createElementNS(SVG, "use");
    use.setAttribute("href", `#icon-${name}`);
    svg.append(use);
    return svg;
  }

  // src/view/announcer.ts
  var KEPT_MS = 15e3;
  var MAX_SPOKEN = 2e3;
  var Announcer = class {
    #polite;
    #urgent;
    constructor(polite, urgent) {
      this.#polite = polite;
      this.#urgent = urgent;
    }
    say(text) {
      speak(this.#polite, text);
    }
    /** Interrupts: for what waits for an answer. */
    interrupt(text) {
      speak(this.#urgent, text);
    }
  };
  function speak(region, text) {
    const line = element("p", {}, text.slice(0, MAX_SPOKEN));
    region.append(line);
    setTimeout(() => line.remove(), KEPT_MS);
  }

  // src/view/composer.ts
  var Composer = class {
    #page;
    #events;
    #files = [];
    constructor(page, events) {
      this.#page = page;
      this.#events = events;
      const { form, text, attach, file } = page;
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        this.#submit();
      });
      text.addEventListener("keydown", (event) => this.#keyPressed(event));
      text.addEventListener("input", () => this.#edited());
      text.addEventListener("paste", (event) => this.#pasted(event));
      attach.addEventListener("click", () => file.click());
      file.addEventListener("change", () => {
        this.attach([...file.files ?? []]);
        file.value = "";
      });
      this.#acceptDrops();
    }
    focus() {
      this.#page.text.focus();
    }
    /** Says what is wrong, above the text; an empty string takes it back. */
    complain(problem2) {
      this.#page.problem.hidden = problem2 === "";
      this.#page.problem.textContent = problem2;
    }
    /** Lays files beside the text, to go with it; those that cannot be sent are refused here. */
    attach(files) {
      const limit = this.#events.maxFileBytes();
      const refusals = files.map((file) => refusal(file, limit));
      this.#files.push(...files.filter((_, at) => refusals[at] === null));
      this.complain(refusals.filter((why) => why !== null).join(" "));
      this.#showFiles();
      this.focus();
    }
    clear() {
      this.#files = [];
      this.#page.text.value = "";
      this.complain("");
      this.#showFiles();
      this.#fit();
    }
    #submit() {
      const { text } = this.#page;
      const written = text.value;
      const limit = this.#events.maxTextChars();
      const count = length(written);
      if (count > limit) {
        this.complain(`A message has at most ${limit} characters; this one has ${count}.`);
        return;
      }
      const files = this.#files;
      const blank = written.trim() === "";
      if (blank && files.length === 0) return;
      this.clear();
      const [first, ...others] = files;
      if (first === void 0) {
        this.#events.say(written);
        return;
      }
      this.#events.share(first, blank ? "" : written);
      for (const file of others) this.#events.share(file, "");
    }
    #keyPressed(event) {
      const touch = matchMedia("(pointer: coarse)").matches;
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || touch) return;
      event.preventDefault();
      this.#submit();
    }
    #edited() {
      this.#fit();
      this.complain("");
      if (this.#page.text.value !== "") this.#events.typing();
    }
    /** As high as its text; the style sheet says how high at most. */
    #fit() {
      const { text } = this.#page;
      text.style.height = "auto";
      const border = text.offsetHeight - text.clientHeight;
      if (text.value !== "") text.style.height = `${text.scrollHeight + border}px`;
    }
    #pasted(event) {
      const files = [...event.clipboardData?.files ?? []];
      if (files.length === 0 || event.clipboardData?.types.includes("text/plain")) return;
      event.preventDefault();
      this.attach(files);
    }
    #acceptDrops() {
      const { drop } = this.#page;
      const wanted = (event) => this.#events.active() && (event.dataTransfer?.types.includes("Files") ?? false);
      window.addEventListener("dragover", (event) => {
        if (!wanted(event)) return;
        event.preventDefault();
        drop.hidden = false;
      });
      window.addEventListener("dragleave", (event) => {
        if (event.relatedTarget === null) drop.hidden = true;
      });
      window.addEventListener("drop", (event) => {
        drop.hidden = true;
        if (!wanted(event)) return;
        event.preventDefault();
        this.attach([...event.dataTransfer?.files ?? []]);
      });
    }
    #showFiles() {
      const { attachments } = this.#page;
      attachments.hidden = this.#files.length === 0;
      attachments.replaceChildren(...this.#files.map((file) => this.#fileItem(file)));
    }
    #fileItem(file) {
      const label = `Do not send ${file.name}`;
      const remove2 = element(
        "button",
        { type: "button", class: "quiet", "aria-label": label },
        icon("close")
      );
      remove2.addEventListener("click", () => {
        this.#files = this.#files.filter((other) => other !== file);
        this.#showFiles();
        this.focus();
      });
      const name = element("span", { class: "name" }, file.name);
      return element(
        "li",
        { "data-testid": "attachment" },
        icon("file"),
        name,
        ` ${size(file.size)}`,
        remove2
      );
    }
  };

  // src/command.ts
  var HIDDEN = /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\u{e0000}-\u{e01ef}]/gu;
  function parts(command) {
    const found = [];
    let from = 0;
    for (const { 0: character, index } of command.matchAll(HIDDEN)) {
      if (index > from) found.push({ text: command.slice(from, index), hidden: false });
      const code2 = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
      found.push({ text: `U+${code2}`, hidden: true });
      from = index + character.length;
    }
    if (from < command.length) found.push({ text: command.slice(from), hidden: false });
    return found;
  }
  function question(prompt) {
    const { text, command } = prompt;
    if (command === void 0 || command === "") return text;
    const at = text.indexOf(command.slice(0, 80));
    if (at < 1) return text;
    const shown = text.slice(at).replace(/…$/, "");
    return command.startsWith(shown) ? text.slice(0, at).trim() : text;
  }

  // src/view/arming.ts
  var SEEN_MS = 800;
  var BUTTON_SHARE = 0.9;
  var COMMAND_SHARE = 0.5;
  var Arming = class {
    #timers = /* @__PURE__ */ new Map();
    #seen = /* @__PURE__ */ new Set();
    #command;
    #observer;
    constructor(command, buttons, changed) {
      this.#command = command;
      this.#observer = new IntersectionObserver(
        (views) => {
          for (const view of views) this.#look(view, changed);
          changed();
        },
        { threshold: [COMMAND_SHARE, BUTTON_SHARE] }
      );
      if (command !== null) this.#observer.observe(command);
      for (const button of buttons) this.#observer.observe(button);
    }
    armed(button) {
      return this.#commandSeen && this.#seen.has(button);
    }
    /** Somebody is at the buttons without having seen the command. */
    get commandMissed() {
      return !this.#commandSeen && this.#seen.size > 0;
    }
    get #commandSeen() {
      return this.#command === null || this.#seen.has(this.#command);
    }
    end() {
      for (const timer of this.#timers.values()) clearTimeout(timer);
      this.#observer.disconnect();
    }
    #look({ target, intersectionRatio }, changed) {
      const isCommand = target === this.#command;
      const visible = intersectionRatio >= (isCommand ? COMMAND_SHARE : BUTTON_SHARE);
      if (visible && !this.#timers.has(target)) {
        const see = () => {
          this.#seen.add(target);
          changed();
        };
        this.#timers.set(target, setTimeout(see, SEEN_MS));
      } else if (!visible) {
        clearTimeout(this.#timers.get(target));
        this.#timers.delete(target);
        if (!isCommand) this.#seen.delete(target);
      }
    }
  };

  // src/view/card.ts
  var OTHER = "other";
  var LAST_CALL = 30;
  var CardView = class {
    root;
    #card;
    #actions;
    #buttons = element("div", { class: "options" });
    #other;
    #time = element("p", { class: "time", role: "timer", "data-testid": "time-left" });
    #outcome = element("p", { class: "outcome", "data-testid": "outcome" });
    #arming;
    #ticking;
    #called = false;
    #ended = false;
    constructor(card, actions) {
      const { prompt } = card;
      this.#card = card;
      this.#actions = actions;
      const title = element("h2", { id: `${card.key}-title`, dir: "auto" }, question(prompt));
      this.root = element("article", {
        class: "entry card",
        tabindex: "-1",
        "aria-labelledby": title.id,
        "data-testid": "card",
        "data-kind": prompt.kind
      });
      this.root.append(title, ...this.#details(), this.#time, this.#buttons, this.#outcome);
      const wordsOnly = prompt.kind === "clarify" && prompt.options.length === 0;
      const hasOther = wordsOnly || prompt.options.some((option) => option.id === OTHER);
      this.#other = hasOther ? new OtherAnswer(card, actions, (text) => this.#choose(OTHER, text)) : null;
      if (this.#other !== null) this.#outcome.before(this.#other.root);
      this.#addButtons();
      const command = this.root.querySelector(".command");
      this.#arming = new Arming(command, this.#buttons.children, () => this.update());
      this.#ticking = setInterval(() => this.#tick(), 1e3);
      this.update();
    }
    /** Whether it takes an answer: then nothing may move it from under a finger. */
    get open() {
      return this.#card.answer.state === "open" && this.#secondsLeft() > 0;
    }
    update() {
      const { answer } = this.#card;
      this.root.dataset["state"] = answer.state;
      const usable = this.open && this.#actions.connected();
      for (const button of this.#buttons.querySelectorAll("button")) {
        button.setAttribute("aria-disabled", String(!(usable && this.#arming.armed(button))));
      }
      this.#other?.allow(usable);
      const asked = answer.state === "open";
      this.#buttons.hidden = !asked;
      if (this.#other !== null && !asked) this.#other.root.hidden = true;
      this.#time.hidden = !asked;
      this.#time.textContent = this.#timeInWords();
      this.#outcome.textContent = this.#outcomeInWords();
      const focused = document.activeElement;
      if (this.root.contains(focused) && focused?.closest("[hidden]")) this.root.focus();
      if (answer.state === "closed" || answer.state === "expired") this.#close();
    }
    end() {
      clearInterval(this.#ticking);
      this.#arming.end();
    }
    #close() {
      if (this.#ended) return;
      this.#ended = true;
      this.end();
      if (this.#card.answer.state === "expired") this.#actions.announce(this.#outcomeInWords());
    }
    #details() {
      const { command, description } = this.#card.prompt;
      const shown = [];
      if (command !== void 0 && command !== "") {
        const lines = command.split("\n").length;
        const text = parts(command).map(
          (part) => part.hidden ? element("mark", { title: "A character that is not seen" }, part.text) : part.text
        );
        shown.push(
          element(
            "pre",
            {
              class: "command",
              tabindex: "0",
              role: "region",
              "aria-label": "Command",
              dir: "ltr",
              "data-testid": "command"
            },
            element("code", {}, ...text)
          )
        );
        if (lines > 8 || command.length > 600) {
          const extent = `${length(command)} characters, ${lines === 1 ? "1 line" : `${lines} lines`}`;
          shown.push(element("p", { class: "hint" }, `${extent}: scroll to read all of it.`));
        }
      }
      if (description !== void 0 && description !== "") {
        shown.push(element("p", { class: "description", dir: "auto" }, description));
      }
      return shown;
    }
    #addButtons() {
      for (const option of this.#card.prompt.options) {
        const style = option.style === "primary" || option.style === "danger" ? option.style : "";
        const button = element(
          "button",
          { type: "button", class: style, "data-option": option.id },
          option.label
        );
        button.addEventListener("click", () => {
          if (button.getAttribute("aria-disabled") === "true") return;
          if (option.id === OTHER) this.#other?.open();
          else this.#choose(option.id, "");
        });
        this.#buttons.append(button);
      }
      if (this.#card.prompt.options.every((option) => option.id === OTHER)) {
        this.#buttons.replaceChildren();
        if (this.#other !== null) this.#other.root.hidden = false;
      }
    }
    #choose(optionId, text) {
      this.#actions.answer(this.#card, optionId, text);
    }
    #secondsLeft() {
      return (this.#card.deadline - Date.now()) / 1e3;
    }
    #tick() {
      const left = Math.ceil(this.#secondsLeft());
      if (left <= LAST_CALL && left > 0 && !this.#called) {
        this.#called = true;
        this.#actions.announce(`${left} seconds left to answer.`);
      }
      if (left <= 0) this.update();
      else this.#time.textContent = this.#timeInWords();
    }
    #timeInWords() {
      if (!this.#actions.connected()) return "No connection: the answer cannot be sent now.";
      const left = this.#secondsLeft();
      if (left <= 0) return "The time is up.";
      const advice = this.#arming.commandMissed ? ". Read the command first: it is further up." : "";
      return `${minutes(left)} left${advice}`;
    }
    #outcomeInWords() {
      const { answer, prompt } = this.#card;
      const label = (id) => prompt.options.find((option) => option.id === id)?.label ?? id;
      switch (answer.state) {
        case "open":
          return "";
        case "answering":
          return "Sending your answer…";
        case "expired":
          return EXPIRED[prompt.kind] ?? "Expired.";
        case "closed":
          if (answer.instead !== "") {
            return `You chose “${label(answer.instead)}”, but what counts is “${label(answer.optionId)}”.`;
          }
          if (answer.text !== "") return `Your answer: ${answer.text}`;
          return answer.optionId === OTHER ? "Answered in words." : `Answered: ${label(answer.optionId)}`;
      }
    }
  };
  var EXPIRED = {
    exec_approval: "Expired: the command is not allowed.",
    slash_confirm: "Expired: nothing was confirmed.",
    clarify: "Expired without an answer."
  };
  var OtherAnswer = class {
    root;
    #text;
    #send = element("button", { type: "submit", class: "primary" }, "Send answer");
    #problem = element("p", { class: "problem", role: "alert", hidden: true });
    constructor(card, actions, answer) {
      const id = `${card.key}-answer`;
      this.#text = element("textarea", { id, rows: "2", dir: "auto" });
      this.root = element(
        "form",
        { class: "other", hidden: true },
        element("label", { for: id }, "Your answer"),
        this.#text,
        this.#problem,
        this.#send
      );
      this.root.addEventListener("submit", (event) => {
        event.preventDefault();
        const text = this.#text.value;
        const most = actions.maxTextChars();
        this.#problem.hidden = length(text) <= most;
        this.#problem.textContent = `An answer has at most ${most} characters; this one has ${length(text)}.`;
        if (text.trim() !== "" && this.#problem.hidden && !this.#send.disabled) answer(text);
      });
    }
    open() {
      this.root.hidden = false;
      this.#text.focus();
    }
    allow(usable) {
      this.#send.disabled = !usable;
    }
  };

  // src/markdown/blocks.ts
  var MAX_DEPTH = 8;
  var FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
  var HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
  var RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
  var QUOTE = /^ {0,3}> ?/;
  var ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:[ \t]+|$)/;
  var TABLE_LINE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
  function parseBlocks(text) {
    return parseLines(text.replace(/\r\n?/g, "\n").split("\n"), 0);
  }
  function parseLines(lines, depth) {
    const blocks = [];
    let at = 0;
    while (at < lines.length) {
      const line = lines[at];
      if (isBlank(line)) {
        at++;
        continue;
      }
      const [block, next] = fencedCode(lines, at) ?? heading(line, at) ?? rule(line, at) ?? (depth < MAX_DEPTH ? quote(lines, at, depth) ?? list(lines, at, depth) : null) ?? table(lines, at) ?? paragraph(lines, at);
      blocks.push(block);
      at = next;
    }
    return blocks;
  }
  function isBlank(line) {
    return line.trim() === "";
  }
  function fencedCode(lines, at) {
    const opened = FENCE.exec(lines[at]);
    if (opened === null) return null;
    const fence = opened[1];
    const indent = /^ */.exec(lines[at])[0].length;
    const code2 = [];
    let next = at + 1;
    for (; next < lines.length; next++) {
      const line = lines[next];
      const closed = line.trim();
      if (closed.length >= fence.length && closed === fence[0].repeat(closed.length)) {
        next++;
        break;
      }
      code2.push(line.slice(Math.min(indent, /^ */.exec(line)[0].length)));
    }
    return [{ type: "code", language: opened[2], text: code2.join("\n") }, next];
  }
  function heading(line, at) {
    const found = HEADING.exec(line);
    if (found === null) return null;
    const text = trimClosingMarks(found[2]);
    return [{ type: "heading", level: found[1].length, text }, at + 1];
  }
  function trimClosingMarks(text) {
    const trimmed = text.trim();
    let end = trimmed.length;
    while (end > 0 && trimmed[end - 1] === "#") end--;
    const closes = end < trimmed.length && (end === 0 || trimmed[end - 1] === " ");
    return closes ? trimmed.slice(0, end).trim() : trimmed;
  }
  function rule(line, at) {
    return RULE.test(line) ? [{ type: "rule" }, at + 1] : null;
  }
  function quote(lines, at, depth) {
    let next = at;
    const inner = [];
    while (next < lines.length && QUOTE.test(lines[next])) {
      inner.push(lines[next].replace(QUOTE, ""));
      next++;
    }
    if (inner.length === 0) return null;
    return [{ type: "quote", blocks: parseLines(inner, depth + 1) }, next];
  }
  function list(lines, at, depth) {
    const first = ITEM.exec(lines[at]);
    if (first === null) return null;
    const ordered = isOrdered(first);
    const items = [];
    let next = at;
    while (next < lines.length) {
      const item = ITEM.exec(lines[next]);
      if (item === null || isOrdered(item) !== ordered || RULE.test(lines[next])) break;
      const [inner, after] = itemLines(lines, next, item);
      items.push(parseLines(inner, depth + 1));
      next = after;
    }
    const start = ordered ? Number.parseInt(first[2], 10) : null;
    return [{ type: "list", start, items }, next];
  }
  function isOrdered(item) {
    return /\d/.test(item[2]);
  }
  function itemLines(lines, at, item) {
    const inner = [lines[at].slice(item[0].length)];
    const indent = Math.min(item[1].length + item[2].length + 1, 4);
    let next = at + 1;
    for (; next < lines.length; next++) {
      const line = lines[next].replace(/^\t/, "    ");
      const columns = /^ */.exec(line)[0].length;
      if (isBlank(line)) {
        const below = lines[next + 1];
        const goesOn = below !== void 0 && !isBlank(below) && /^(?: {2,}|\t)/.test(below);
        if (goesOn) inner.push("");
        else if (below !== void 0 && ITEM.test(below)) continue;
        else break;
      } else if (columns >= Math.min(indent, 2) && columns > item[1].length) {
        inner.push(line.slice(Math.min(columns, indent)));
      } else if (ITEM.test(line) || startsBlock(lines, next)) {
        break;
      } else {
        inner.push(line.trimStart());
      }
    }
    return [inner, next];
  }
  function table(lines, at) {
    if (!startsTable(lines, at)) return null;
    const head = cells(lines[at]);
    const rows = [];
    let next = at + 2;
    for (; next < lines.length && lines[next].includes("|") && !isBlank(lines[next]); next++) {
      const row = cells(lines[next]);
      rows.push(head.map((_, column) => row[column] ?? ""));
    }
    return [{ type: "table", head, rows }, next];
  }
  function startsTable(lines, at) {
    const head = lines[at];
    const below = lines[at + 1];
    if (below === void 0 || !head.includes("|") || !below.includes("-")) return false;
    return TABLE_LINE.test(below) && cells(head).length === cells(below).length;
  }
  function cells(line) {
    const found = [];
    let cell = "";
    const inner = line.trim().replace(/^\|/, "");
    for (let i = 0; i < inner.length; i++) {
      if (inner[i] === "\\" && inner[i + 1] === "|") {
        cell += "|";
        i++;
      } else if (inner[i] === "|") {
        found.push(cell.trim());
        cell = "";
      } else {
        cell += inner[i];
      }
    }
    if (cell.trim() !== "") found.push(cell.trim());
    return found;
  }
  function paragraph(lines, at) {
    let next = at + 1;
    while (next < lines.length && !isBlank(lines[next]) && !startsBlock(lines, next)) next++;
    return [{ type: "paragraph", text: lines.slice(at, next).join("\n") }, next];
  }
  function startsBlock(lines, at) {
    const line = lines[at];
    return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line) || startsTable(lines, at);
  }

  // src/markdown/emphasis.ts
  var MAX_DEPTH2 = 8;
  function emphasize(pieces2) {
    const done = [];
    const floors = /* @__PURE__ */ new Map();
    for (const piece of pieces2) {
      if (!("mark" in piece)) {
        done.push(piece);
        continue;
      }
      const run = { ...piece };
      while (run.closes && run.count > 0) {
        const opener = openerOf(run, done, floors.get(floorKey(run)) ?? 0);
        if (opener === -1) {
          floors.set(floorKey(run), done.length);
          break;
        }
        if (!wrap(done, opener, run)) break;
      }
      if (run.count > 0) done.push(run);
    }
    return done.map(toInline);
  }
  function floorKey(run) {
    return `${run.mark}${run.opens}${run.count % 3}`;
  }
  function openerOf(closer, done, floor) {
    for (let at = done.length - 1; at >= floor; at--) {
      const piece = done[at];
      if ("mark" in piece && piece.mark === closer.mark && piece.opens && fits(piece, closer)) {
        return at;
      }
    }
    return -1;
  }
  function fits(opener, closer) {
    if (!opener.closes && !closer.opens) return true;
    return (opener.count + closer.count) % 3 !== 0 || opener.count % 3 === 0;
  }
  function wrap(done, at, closer) {
    const opener = done[at];
    const inside = done.slice(at + 1);
    const depth = 1 + inside.reduce((max, p) => "mark" in p ? max : Math.max(max, p.depth), 0);
    if (depth > MAX_DEPTH2) return false;
    const used = opener.count >= 2 && closer.count >= 2 ? 2 : 1;
    const type = closer.mark === "~" ? "strike" : used === 2 ? "strong" : "emphasis";
    opener.count -= used;
    closer.count -= used;
    done.length = opener.count > 0 ? at + 1 : at;
    done.push({ inline: { type, children: inside.map(toInline) }, depth });
    return true;
  }
  function toInline(piece) {
    return "mark" in piece ? { type: "text", text: piece.mark.repeat(piece.count) } : piece.inline;
  }

  // src/markdown/inline.ts
  var REACH = 2e3;
  var BARE_LINK = /^https?:\/\/[^\s<>"'`]+/i;
  var MARKS = /[*_~]+/y;
  var ESCAPABLE = /[!-/:-@[-`{-~]/;
  var WORD = /[\p{L}\p{N}]/u;
  function parseInline(text) {
    return parse2(text, true);
  }
  function safeHref(address) {
    if (!URL.canParse(address)) return null;
    const url = new URL(address);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  }
  function parse2(text, links) {
    const pieces2 = [];
    let plain = "";
    const flush = () => {
      if (plain !== "") pieces2.push({ inline: { type: "text", text: plain }, depth: 0 });
      plain = "";
    };
    let at = 0;
    while (at < text.length) {
      if (text[at] === "\\" && ESCAPABLE.test(text[at + 1] ?? "")) {
        plain += text[at + 1];
        at += 2;
        continue;
      }
      const found = markAt(text, at) ?? spanAt(text, at, links);
      if (found === null) {
        plain += text[at];
        at++;
        continue;
      }
      flush();
      pieces2.push(found.piece);
      at = found.end;
    }
    flush();
    return emphasize(pieces2);
  }
  function span(inline, end) {
    return { piece: { inline, depth: 1 }, end };
  }
  function markAt(text, at) {
    const mark = text[at];
    if (mark !== "*" && mark !== "_" && mark !== "~") return null;
    MARKS.lastIndex = at;
    let count = 0;
    for (const character of MARKS.exec(text)[0]) {
      if (character !== mark) break;
      count++;
    }
    const end = at + count;
    if (mark === "~" && count !== 2) return span({ type: "text", text: mark.repeat(count) }, end);
    const before = text[at - 1] ?? " ";
    const after = text[end] ?? " ";
    const touchesLeft = !/\s/.test(before);
    const touchesRight = !/\s/.test(after);
    const opens = touchesRight && (isWord(after) || !isWord(before));
    const closes = touchesLeft && (isWord(before) || !isWord(after));
    const inWord = mark === "_" && isWord(before) && isWord(after);
    return { piece: { mark, count, opens: opens && !inWord, closes: closes && !inWord }, end };
  }
  function isWord(character) {
    return WORD.test(character) || /[\ud800-\udfff]/.test(character);
  }
  function spanAt(text, at, links) {
    switch (text[at]) {
      case "`":
        return code(text, at);
      case "[":
        return links ? link(text, at) : null;
      case "<":
        return links ? angleLink(text, at) : null;
      case "h":
      case "H":
        return links && !WORD.test(text[at - 1] ?? "") ? bareLink(text, at) : null;
      default:
        return null;
    }
  }
  function code(text, at) {
    const ahead = text.slice(at, at + REACH);
    const ticks = /^`+/.exec(ahead)[0];
    for (const { 0: run, index } of ahead.matchAll(/`+/g)) {
      if (index === 0 || run.length !== ticks.length) continue;
      const inner = ahead.slice(ticks.length, index).replace(/\n/g, " ");
      const padded = inner.startsWith(" ") && inner.endsWith(" ") && inner.trim() !== "";
      const shown = padded ? inner.slice(1, -1) : inner;
      return span({ type: "code", text: shown }, at + index + run.length);
    }
    return span({ type: "text", text: ticks }, at + ticks.length);
  }
  function link(text, at) {
    const ahead = text.slice(at, at + REACH);
    const middle = ahead.indexOf("](");
    const label = ahead.slice(1, middle);
    if (middle === -1 || label === "" || label.includes("[")) return null;
    const end = closingParenthesis(ahead, middle + 2);
    if (end === -1) return null;
    const address = ahead.slice(middle + 2, end).trim().split(/\s/)[0] ?? "";
    const href = safeHref(address.replace(/^<|>$/g, ""));
    if (href === null) return null;
    return span({ type: "link", href, children: parse2(label, false) }, at + end + 1);
  }
  function closingParenthesis(text, from) {
    let open = 1;
    for (let i = from; i < text.length && text[i] !== "\n"; i++) {
      if (text[i] === "(") open++;
      if (text[i] === ")" && --open === 0) return i;
    }
    return -1;
  }
  function angleLink(text, at) {
    const shown = /^<([^\s<>]+)>/.exec(text.slice(at, at + REACH))?.[1];
    if (shown === void 0) return null;
    const mail = /^[^@:/]+@[^@:/]+$/.test(shown);
    const href = safeHref(mail ? `mailto:${shown}` : shown);
    if (href === null) return null;
    const children = [{ type: "text", text: shown }];
    return span({ type: "link", href, children }, at + shown.length + 2);
  }
  function bareLink(text, at) {
    const found = BARE_LINK.exec(text.slice(at, at + REACH));
    if (found === null) return null;
    const shown = withoutPunctuation(found[0]);
    const href = safeHref(shown);
    if (href === null) return null;
    return span({ type: "link", href, children: [{ type: "text", text: shown }] }, at + shown.length);
  }
  function withoutPunctuation(address) {
    let end = address.length;
    let surplus = address.split(")").length - address.split("(").length;
    for (; end > 0; end--) {
      const last = address[end - 1];
      if (last === ")" && surplus > 0) surplus--;
      else if (last === ")" || !/[.,:;!?*_~\]]/.test(last)) break;
    }
    return address.slice(0, end);
  }

  // src/markdown/render.ts
  var MarkdownView = class {
    #parent;
    #shown = [];
    constructor(parent) {
      this.#parent = parent;
    }
    show(blocks) {
      const wanted = blocks.map((block) => JSON.stringify(block));
      let same = 0;
      while (same < wanted.length && wanted[same] === this.#shown[same]) same++;
      while (this.#parent.childElementCount > same) this.#parent.lastElementChild?.remove();
      this.#parent.append(...blocks.slice(same).map(renderBlock));
      this.#shown = wanted;
    }
  };
  function renderBlock(block) {
    switch (block.type) {
      case "paragraph":
        return element("p", {}, ...renderLines(block.text));
      case "heading":
        return renderHeading(block.level, block.text);
      case "code":
        return renderCode(block.text, block.language);
      case "quote":
        return element("blockquote", {}, ...block.blocks.map(renderBlock));
      case "list":
        return renderList(block.start, block.items);
      case "table":
        return renderTable(block.head, block.rows);
      case "rule":
        return element("hr");
    }
  }
  function renderHeading(level, text) {
    const tag = ["h3", "h4", "h5", "h6"][Math.min(level, 4) - 1] ?? "h6";
    return element(tag, {}, ...renderInline(parseInline(text)));
  }
  function renderLines(text) {
    const lines = renderInline(parseInline(text));
    return lines.flatMap((node) => breakLines(node));
  }
  function breakLines(node) {
    if (!(node instanceof Text)) {
      for (const child of [...node.childNodes]) child.replaceWith(...breakLines(child));
      return [node];
    }
    const [first = "", ...others] = node.data.split("\n");
    return [
      document.createTextNode(first),
      ...others.flatMap((line) => [element("br"), document.createTextNode(line)])
    ];
  }
  function renderCode(text, language) {
    const label = language === "" ? "Code" : `Code, ${language}`;
    const code2 = element("code", {}, text);
    const pre = element("pre", { tabindex: "0", role: "region", "aria-label": label }, code2);
    const copy = element("button", { type: "button", class: "quiet copy" }, "Copy");
    copy.addEventListener("click", () => {
      copyText(text).then(
        () => copy.textContent = "Copied",
        () => copy.textContent = "Could not copy"
      );
    });
    return element("div", { class: "code" }, pre, copy);
  }
  async function copyText(text) {
    await navigator.clipboard.writeText(text);
  }
  function renderList(start, items) {
    const rendered = items.map((blocks) => element("li", {}, ...blocks.map(renderBlock)));
    if (start === null) return element("ul", {}, ...rendered);
    return element("ol", { start: String(start) }, ...rendered);
  }
  function renderTable(head, rows) {
    const cell = (tag, text) => element(tag, tag === "th" ? { scope: "col" } : {}, ...renderInline(parseInline(text)));
    const table2 = element(
      "table",
      {},
      element("thead", {}, element("tr", {}, ...head.map((text) => cell("th", text)))),
      element(
        "tbody",
        {},
        ...rows.map((row) => element("tr", {}, ...row.map((text) => cell("td", text))))
      )
    );
    return element(
      "div",
      { class: "table", tabindex: "0", role: "region", "aria-label": "Table" },
      table2
    );
  }
  function renderInline(nodes) {
    return nodes.map((node) => {
      switch (node.type) {
        case "text":
          return document.createTextNode(node.text);
        case "code":
          return element("code", {}, node.text);
        case "strong":
          return element("strong", {}, ...renderInline(node.children));
        case "emphasis":
          return element("em", {}, ...renderInline(node.children));
        case "strike":
          return element("s", {}, ...renderInline(node.children));
        case "link":
          return renderLink(node.href, renderInline(node.children));
      }
    });
  }
  function renderLink(href, children) {
    return element("a", { href, target: "_blank", rel: "noopener noreferrer" }, ...children);
  }

  // src/view/file.ts
  var SharedView = class {
    root;
    #entry;
    #url;
    #delivery = deliveryLine();
    constructor(entry, actions) {
      this.#entry = entry;
      const { file } = entry;
      this.#url = URL.createObjectURL(file.slice(0, file.size, safeType(file.type)));
      const shown = showFile(this.#url, entry.preview, file.name, entry.caption, actions);
      const line = fileLine(entry.preview, file.name, file.size);
      const caption = entry.caption === "" ? [] : [element("p", { class: "text", dir: "auto" }, entry.caption)];
      this.root = entryFrame(entry, "said shared", "You", shown, line, ...caption);
      this.root.append(this.#delivery);
      this.update();
    }
    update() {
      showDelivery(this.#delivery, this.#entry.delivery);
    }
    end() {
      URL.revokeObjectURL(this.#url);
    }
  };
  var ReceivedView = class {
    root;
    #entry;
    #actions;
    #content = element("div", { class: "file" });
    #url = "";
    constructor(entry, actions) {
      this.#entry = entry;
      this.#actions = actions;
      this.root = entryFrame(entry, "reply received", "Hermes", this.#content);
      this.update();
    }
    update() {
      const { file, arrived } = this.#entry;
      if (file === null) this.#content.replaceChildren(arriving(arrived));
      else if (this.root.dataset["fileKind"] === void 0) this.#show(file);
    }
    end() {
      if (this.#url !== "") URL.revokeObjectURL(this.#url);
    }
    #show({ kind, name, mime, caption, content }) {
      this.root.dataset["fileKind"] = kind;
      if (caption !== "") this.#content.after(element("p", { class: "text", dir: "auto" }, caption));
      if (typeof content === "string") {
        this.#content.replaceChildren(linkTo(content, name));
        return;
      }
      this.#url = URL.createObjectURL(content);
      const type = preview(mime);
      const shown = kind === "animation" && type === "video" ? animation(this.#url) : showFile(this.#url, type, name, caption, this.#actions);
      const line = fileLine(type, name, content.size);
      line.append(" · ", element("a", { href: this.#url, download: name }, "Save"));
      this.#content.replaceChildren(shown, line);
    }
  };
  function fileLine(kind, name, bytes) {
    const text = kind === "none" ? size(bytes) : `${name} · ${size(bytes)}`;
    return element("p", { class: "file-line" }, text);
  }
  function arriving(arrived) {
    const label = `Receiving a file, ${Math.round(arrived * 100)} %`;
    return element(
      "p",
      { class: "delivery" },
      label,
      element("progress", { max: "1", value: String(arrived), "aria-label": "Receiving a file" })
    );
  }
  function linkTo(url, name) {
    const href = safeHref(url);
    const line = element("p", { class: "document" }, icon("file"));
    if (href === null) line.append(`${name}: its address cannot be opened here.`);
    else line.append(renderLink(href, [document.createTextNode(name)]), ` on ${new URL(href).host}`);
    return line;
  }
  function showFile(url, kind, name, caption, actions) {
    switch (kind) {
      case "image": {
        const alt = caption === "" ? name : caption;
        const image = element("img", { src: url, alt });
        const open = element(
          "button",
          { type: "button", class: "image", "aria-label": `Enlarge: ${alt}` },
          image
        );
        image.addEventListener("error", () => open.replaceWith(cannotShow(name)), { once: true });
        open.addEventListener("click", () => actions.enlarge(url, alt));
        return open;
      }
      case "video":
      case "audio": {
        const player = element(kind, {
          src: url,
          controls: true,
          preload: "metadata",
          "aria-label": name
        });
        player.addEventListener("error", () => player.replaceWith(cannotShow(name)), { once: true });
        return player;
      }
      case "none":
        return element("p", { class: "document" }, icon("file"), name);
    }
  }
  function animation(url) {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const video = element("video", { src: url, loop: true, playsinline: true, controls: still });
    video.muted = true;
    video.autoplay = !still;
    return video;
  }
  function cannotShow(name) {
    return element(
      "p",
      { class: "document" },
      icon("file"),
      `${name} cannot be shown by this browser.`
    );
  }

  // src/view/entries.ts
  function viewOf(entry, actions) {
    switch (entry.kind) {
      case "said":
        return new SaidView(entry);
      case "shared":
        return new SharedView(entry, actions);
      case "reply":
        return new ReplyView(entry);
      case "card":
        return new CardView(entry, actions);
      case "received":
        return new ReceivedView(entry, actions);
      case "notice":
        return new NoticeView(entry);
    }
  }
  function entryFrame(entry, classes, who, ...content) {
    const time = clock(entry.time);
    return element(
      "article",
      { class: `entry ${classes}`, "aria-label": `${who}, ${time}`, "data-testid": entry.kind },
      element("div", { class: "bubble" }, ...content),
      element("time", { datetime: new Date(entry.time).toISOString() }, time)
    );
  }
  function deliveryLine() {
    return element("p", { class: "delivery", "data-testid": "delivery" });
  }
  function showDelivery(line, delivery) {
    line.dataset["state"] = delivery.state;
    switch (delivery.state) {
      case "waiting":
        line.replaceChildren("Waiting…");
        break;
      case "sending": {
        const value = String(delivery.progress);
        const bar = element("progress", { max: "1", value, "aria-label": "Sending" });
        line.replaceChildren(`Sending, ${Math.round(delivery.progress * 100)} %`, bar);
        break;
      }
      case "sent":
        line.replaceChildren();
        break;
      case "failed":
        line.replaceChildren(`Not sent. ${delivery.why}`);
    }
  }
  var SaidView = class {
    root;
    #entry;
    #delivery = deliveryLine();
    constructor(entry) {
      this.#entry = entry;
      this.root = entryFrame(
        entry,
        "said",
        "You",
        element("p", { class: "text", dir: "auto" }, entry.text)
      );
      this.root.append(this.#delivery);
      this.update();
    }
    update() {
      showDelivery(this.#delivery, this.#entry.delivery);
    }
    end() {
    }
  };
  var DRAWING_SHARE = 0.2;
  var ReplyView = class {
    root;
    #entry;
    #markdown;
    #timer;
    #pause = 0;
    constructor(entry) {
      this.#entry = entry;
      const content = element("div", { class: "markdown", dir: "auto" });
      this.#markdown = new MarkdownView(content);
      this.root = entryFrame(entry, "reply", "Hermes", content);
      this.#draw();
    }
    update() {
      this.#timer ??= setTimeout(() => this.#draw(), this.#pause);
    }
    end() {
      clearTimeout(this.#timer);
    }
    #draw() {
      const started = performance.now();
      this.#timer = void 0;
      this.#markdown.show(parseBlocks(textOf(this.#entry)));
      this.root.dataset["finished"] = String(this.#entry.finished);
      this.#pause = (performance.now() - started) / DRAWING_SHARE;
    }
  };
  var NoticeView = class {
    root;
    constructor({ problem: problem2, detail, key }) {
      const text = [element("strong", {}, `${problem2.title}.`), ` ${problem2.advice}`];
      if (detail !== "") text.push(element("small", {}, `The server said: ${detail}`));
      const attributes = { class: "entry notice", "data-testid": "notice", id: key };
      this.root = element("article", attributes, element("p", {}, ...text));
    }
    update() {
    }
    end() {
    }
  };

  // src/view/log.ts
  var NEAR = 40;
  var LogView = class {
    #page;
    #actions;
    #views = /* @__PURE__ */ new Map();
    #following = true;
    #lastTop = 0;
    constructor(page, actions) {
      this.#page = page;
      this.#actions = actions;
      page.log.addEventListener("scroll", () => this.#scrolled(), { passive: true });
      page.newest.addEventListener("click", () => this.follow());
      const resized = new ResizeObserver(() => this.#settle());
      resized.observe(page.entries);
      resized.observe(page.log);
    }
    added(entry) {
      const view = viewOf(entry, this.#actions);
      this.#views.set(entry.key, view);
      this.#page.entries.append(view.root);
      this.#page.empty.hidden = true;
      const ours = entry.kind === "said" || entry.kind === "shared";
      if (entry.kind === "card" && this.#following) this.#showFromTop(view.root);
      else if (ours) this.follow();
    }
    changed(entry) {
      this.#views.get(entry.key)?.update();
      if (entry.kind === "card" && entry.answer.state === "answering") this.follow();
    }
    removed(entry) {
      const view = this.#views.get(entry.key);
      view?.end();
      view?.root.remove();
      this.#views.delete(entry.key);
      this.#page.empty.hidden = this.#views.size > 0;
    }
    /** The connection has come or gone: what can be pressed has changed. */
    refreshCards() {
      for (const view of this.#views.values()) if (view instanceof CardView) view.update();
    }
    /** Goes to the end, and stays there. */
    follow() {
      this.#following = true;
      this.#page.newest.hidden = true;
      const { log: log2 } = this.#page;
      log2.scrollTop = log2.scrollHeight;
      this.#lastTop = log2.scrollTop;
    }
    /** Shows an entry as a whole, or where it is higher than the log, its beginning. */
    #showFromTop(root) {
      this.follow();
      if (root.offsetHeight <= this.#page.log.clientHeight) return;
      root.scrollIntoView({ block: "start" });
      this.#following = false;
    }
    #atEnd() {
      const { log: log2 } = this.#page;
      return log2.scrollHeight - log2.scrollTop - log2.clientHeight < NEAR;
    }
    #scrolled() {
      const { scrollTop } = this.#page.log;
      if (this.#atEnd()) this.follow();
      else if (scrollTop < this.#lastTop) this.#following = false;
      this.#lastTop = scrollTop;
    }
    #settle() {
      if (this.#following && !this.#holding()) {
        this.follow();
        return;
      }
      this.#page.newest.hidden = this.#atEnd();
      this.#page.newestText.textContent = this.#openCards().length > 0 ? "A question waits" : "New messages";
    }
    #openCards() {
      const cards = [...this.#views.values()].filter((view) => view instanceof CardView);
      return cards.filter((card) => card.open);
    }
    /** An open card on the screen holds the log still: no button may slip under a finger. */
    #holding() {
      const { top, bottom } = this.#page.log.getBoundingClientRect();
      return this.#openCards().some((view) => {
        const box = view.root.getBoundingClientRect();
        return box.bottom <= bottom + NEAR && box.bottom > top;
      });
    }
  };

  // src/view/status.ts
  var CONNECTIONS = {
    idle: "Not connected",
    connecting: "Connecting…",
    connected: "Connected",
    reconnecting: "Reconnecting…",
    failed: "Not connected"
  };
  var PRESENCES = {
    idle: "Idle",
    thinking: "Thinking…",
    speaking: "Speaking…"
  };
  var QUIET_ATTEMPTS = 1;
  var StatusView = class {
    #page;
    #events;
    #signInNext = false;
    #avatar = "idle";
    constructor(page, events) {
      this.#page = page;
      this.#events = events;
      page.bannerAction.addEventListener("click", () => {
        if (this.#signInNext) this.#events.signIn();
        else this.#events.connect();
      });
      page.avatar.addEventListener("load", () => this.#showAvatar());
      page.avatar.src = "avatar/#transparent=1";
    }
    show(status2) {
      const { presence, connection, address, working } = this.#page;
      setText(connection, CONNECTIONS[status2.connection]);
      connection.dataset["state"] = status2.connection;
      setText(presence, PRESENCES[status2.avatar]);
      setText(address, status2.address);
      working.hidden = !status2.working;
      this.#avatar = status2.avatar;
      this.#showAvatar();
      this.#showBanner(status2);
    }
    #showAvatar() {
      const message = { type: "hermes-avatar", state: this.#avatar };
      this.#page.avatar.contentWindow?.postMessage(message, location.origin);
    }
    #showBanner({ connection, attempt, problem: problem2, replaced }) {
      const { banner, bannerTitle, bannerAdvice, bannerAction } = this.#page;
      const quiet = connection === "reconnecting" && attempt <= QUIET_ATTEMPTS;
      banner.hidden = problem2 === null || quiet;
      if (problem2 === null || quiet) return;
      const again = connection === "reconnecting";
      this.#signInNext = !again && !replaced;
      setText(bannerTitle, `${problem2.title}.`);
      setText(bannerAdvice, again ? `${problem2.advice} This page keeps trying.` : problem2.advice);
      setText(bannerAction, again ? "Try now" : replaced ? "Use it here" : "Sign in again");
      banner.dataset["tone"] = again ? "calm" : "grave";
    }
  };
  function setText(element2, text) {
    if (element2.textContent !== text) element2.textContent = text;
  }

  // src/wav.ts
  var VOICE_RATE = 16e3;
  var HEADER_BYTES = 44;
  var BYTES_PER_SAMPLE = 2;
  function wavSeconds(bytes) {
    return Math.max(0, (bytes - HEADER_BYTES) / (VOICE_RATE * BYTES_PER_SAMPLE));
  }
  function mono(channels) {
    const [first, ...others] = channels;
    if (first === void 0) return new Float32Array();
    if (others.length === 0) return first;
    const mixed = Float32Array.from(first);
    for (const channel of others) {
      for (let i = 0; i < mixed.length; i++) mixed[i] += channel[i] ?? 0;
    }
    return mixed.map((sample) => sample / channels.length);
  }
  function encodeWav(samples) {
    const dataBytes = samples.length * BYTES_PER_SAMPLE;
    const file = new DataView(new ArrayBuffer(HEADER_BYTES + dataBytes));
    const ascii = (offset, text) => {
      for (let i = 0; i < text.length; i++) file.setUint8(offset + i, text.charCodeAt(i));
    };
    ascii(0, "RIFF");
    file.setUint32(4, HEADER_BYTES - 8 + dataBytes, true);
    ascii(8, "WAVE");
    ascii(12, "fmt ");
    file.setUint32(16, 16, true);
    file.setUint16(20, 1, true);
    file.setUint16(22, 1, true);
    file.setUint32(24, VOICE_RATE, true);
    file.setUint32(28, VOICE_RATE * BYTES_PER_SAMPLE, true);
    file.setUint16(32, BYTES_PER_SAMPLE, true);
    file.setUint16(34, 8 * BYTES_PER_SAMPLE, true);
    ascii(36, "data");
    file.setUint32(40, dataBytes, true);
    for (const [i, sample] of samples.entries()) {
      const clipped = Math.max(-1, Math.min(1, sample));
      file.setInt16(HEADER_BYTES + i * BYTES_PER_SAMPLE, Math.round(clipped * 32767), true);
    }
    return new Uint8Array(file.buffer);
  }

  // src/recording.ts
  function recordingProblem() {
    if (!window.isSecureContext) return "Browsers record only over https, or from localhost.";
    const can = "MediaRecorder" in window && "mediaDevices" in navigator;
    return can ? null : "This browser cannot record.";
  }
  function microphoneProblem(error) {
    const name = error instanceof DOMException ? error.name : "";
    switch (name) {
      case "NotAllowedError":
        return "The microphone is not allowed for this page. The browser’s site settings can change that.";
      case "NotFoundError":
        return "There is no microphone.";
      case "NotReadableError":
        return "The microphone is in use by another program.";
      default:
        return "The microphone could not be started.";
    }
  }
  var Recording = class _Recording {
    startedAt = performance.now();
    #stream;
    #recorder;
    #chunks = [];
    /** Asks for the microphone and begins. *Errors*: those of `getUserMedia`. */
    static async start() {
      const stream = await navigator.mediaDevices.getUserMedia({
        audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true }
      });
      try {
        return new _Recording(stream);
      } catch (error) {
        release(stream);
        throw error;
      }
    }
    constructor(stream) {
      this.#stream = stream;
      this.#recorder = new MediaRecorder(stream);
      this.#recorder.addEventListener("dataavailable", ({ data }) => this.#chunks.push(data));
      this.#recorder.start();
    }
    /** In seconds. */
    get length() {
      return (performance.now() - this.startedAt) / 1e3;
    }
    /** Ends it, and returns it as a WAV file. *Errors*: an Error when there is nothing in it. */
    async finish() {
      await this.#stop();
      const recorded = await new Blob(this.#chunks).arrayBuffer();
      const audio = await new OfflineAudioContext(1, 1, VOICE_RATE).decodeAudioData(recorded);
      const channels = Array.from(
        { length: audio.numberOfChannels },
        (_, n) => audio.getChannelData(n)
      );
      const samples = mono(channels);
      if (samples.length === 0) throw new Error("the recording is empty");
      return encodeWav(samples);
    }
    async cancel() {
      await this.#stop();
    }
    async #stop() {
      try {
        if (this.#recorder.state === "inactive") return;
        const stopped = new Promise((resolve) => {
          this.#recorder.addEventListener("stop", resolve, { once: true });
        });
        this.#recorder.stop();
        await stopped;
      } finally {
        release(this.#stream);
      }
    }
  };
  function release(stream) {
    for (const track of stream.getTracks()) track.stop();
  }

  // src/view/voice.ts
  var Voice = class {
    #page;
    #events;
    #recording = null;
    #busy = false;
    #ticking;
    constructor(page, events) {
      this.#page = page;
      this.#events = events;
      page.record.addEventListener("click", () => void this.#start());
      page.cancel.addEventListener("click", () => void this.cancel());
      page.send.addEventListener("click", () => void this.#finish());
      page.panel.addEventListener("keydown", (event) => {
        if (event.key === "Escape") void this.cancel();
      });
    }
    async cancel() {
      const recording = this.#end();
      try {
        await recording?.cancel();
      } catch {
      }
    }
    async #start() {
      const problem2 = recordingProblem();
      if (problem2 !== null) {
        this.#events.complain(problem2);
        return;
      }
      if (this.#busy || this.#recording !== null) return;
      this.#busy = true;
      try {
        this.#recording = await Recording.start();
      } catch (error) {
        this.#events.complain(microphoneProblem(error));
        return;
      } finally {
        this.#busy = false;
      }
      this.#events.complain("");
      this.#show(true);
      this.#page.send.focus();
      this.#ticking = setInterval(() => this.#tick(), 250);
      this.#tick();
    }
    /** What has become too long is sent as far as it fits: nobody wants to say it all again. */
    #tick() {
      if (this.#recording === null) return;
      const { length: length2 } = this.#recording;
      const most = Math.floor(wavSeconds(this.#events.maxFileBytes())) - 1;
      this.#page.time.textContent = `${minutes(length2)} of ${minutes(most)}`;
      if (length2 >= most) void this.#finish();
    }
    async #finish() {
      const recording = this.#end();
      if (recording === null) return;
      try {
        const wav = await recording.finish();
        this.#events.recorded(new File([wav], "voice.wav", { type: "audio/wav" }));
      } catch {
        this.#events.complain("The recording could not be read. Try again.");
      }
    }
    #end() {
      const recording = this.#recording;
      this.#recording = null;
      clearInterval(this.#ticking);
      if (recording !== null) {
        this.#show(false);
        this.#page.record.focus();
      }
      return recording;
    }
    #show(recording) {
      this.#page.writing.hidden = recording;
      this.#page.panel.hidden = !recording;
    }
  };

  // src/main.ts
  var link2 = takeLink(location, history);
  var storage = () => localStorage;
  var session = null;
  var comings = 0;
  var announcer = new Announcer(find("announcements", HTMLElement), find("urgent", HTMLElement));
  var log = new LogView(
    {
      log: find("log", HTMLElement),
      entries: find("entries", HTMLElement),
      empty: find("empty", HTMLElement),
      newest: find("newest", HTMLButtonElement),
      newestText: find("newest-text", HTMLElement)
    },
    {
      answer: (card, optionId, text) => session?.answer(card, optionId, text),
      connected: () => session?.status.connection === "connected",
      maxTextChars: () => session?.maxTextChars ?? 0,
      announce: (text) => announcer.say(text),
      enlarge
    }
  );
  var conversation = new Conversation(log);
  var traffic = new Traffic((id, arrived) => conversation.arriving(id, arrived));
  globalThis.WebSocket = traffic.watch(WebSocket);
  var status = new StatusView(
    {
      avatar: find("avatar", HTMLIFrameElement),
      presence: find("presence", HTMLElement),
      connection: find("connection", HTMLElement),
      address: find("address", HTMLElement),
      working: find("working", HTMLElement),
      banner: find("banner", HTMLElement),
      bannerTitle: find("banner-title", HTMLElement),
      bannerAdvice: find("banner-advice", HTMLElement),
      bannerAction: find("banner-action", HTMLButtonElement)
    },
    { connect: () => session?.connect(), signIn: () => askForToken("") }
  );
  var composer = new Composer(
    {
      form: find("composer", HTMLFormElement),
      text: find("text", HTMLTextAreaElement),
      problem: find("composer-problem", HTMLElement),
      attachments: find("attachments", HTMLUListElement),
      attach: find("attach", HTMLButtonElement),
      file: find("file", HTMLInputElement),
      drop: find("drop", HTMLElement)
    },
    {
      say: (text) => session?.say(text),
      share: (file, caption) => session?.share(file, caption),
      typing: () => session?.typing(),
      maxFileBytes: () => session?.maxFileBytes ?? 0,
      maxTextChars: () => session?.maxTextChars ?? 0,
      active: () => session !== null
    }
  );
  var voice = new Voice(
    {
      record: find("record", HTMLButtonElement),
      writing: find("writing", HTMLElement),
      panel: find("recording", HTMLElement),
      time: find("recording-time", HTMLElement),
      cancel: find("recording-cancel", HTMLButtonElement),
      send: find("recording-send", HTMLButtonElement)
    },
    {
      recorded: (file) => session?.speak(file),
      complain: (problem2) => composer.complain(problem2),
      maxFileBytes: () => session?.maxFileBytes ?? 0
    }
  );
  var signIn = {
    page: find("sign-in", HTMLElement),
    form: find("sign-in-form", HTMLFormElement),
    problem: find("sign-in-problem", HTMLElement),
    token: find("token", HTMLInputElement),
    device: find("device", HTMLInputElement)
  };
  var chat = find("console", HTMLElement);
  signIn.form.addEventListener("submit", (event) => {
    event.preventDefault();
    void begin({ token: signIn.token.value.trim(), device: signIn.device.value.trim() });
  });
  find("sign-out", HTMLButtonElement).addEventListener("click", () => askForToken(""));
  find("stop", HTMLButtonElement).addEventListener("click", () => session?.stop());
  find("try-help", HTMLButtonElement).addEventListener("click", () => {
    session?.say("/help");
    composer.focus();
  });
  window.addEventListener("online", () => {
    if (session?.status.connection === "reconnecting") session.connect();
  });
  window.addEventListener("hashchange", () => {
    const opened = takeLink(location, history);
    if (opened !== null) void begin(opened);
  });
  offerNotifications(find("notify", HTMLButtonElement));
  if (link2 === null) askForToken("");
  else void begin(link2);
  function askForToken(problem2) {
    endSession();
    signIn.device.value = deviceId(storage);
    signIn.problem.textContent = problem2;
    signIn.problem.hidden = problem2 === "";
    chat.hidden = true;
    signIn.page.hidden = false;
    signIn.token.focus();
  }
  async function begin(who) {
    endSession();
    const mine = comings;
    const id = who.device === "" ? deviceId(storage) : who.device;
    keepDeviceId(storage, id);
    let config;
    try {
      config = await loadConfig();
    } catch {
      if (mine !== comings) return;
      askForToken("This page could not learn where the server is. Is it running? Try again.");
      signIn.token.value = who.token;
      return;
    }
    if (mine !== comings) return;
    signIn.token.value = "";
    signIn.page.hidden = true;
    chat.hidden = false;
    const device = { id, name: "Web console", platform: "web", appVersion: config.version };
    const options = { url: config.url, token: who.token, device };
    const events = { status: show, heard };
    session = new Session((all) => new HermesClient(all), options, conversation, traffic, events);
    show(session.status);
    try {
      session.connect();
    } catch {
      askForToken(`The server’s address, ${config.url}, cannot be used from this page.`);
      return;
    }
    composer.focus();
  }
  function endSession() {
    comings += 1;
    void voice.cancel();
    session?.end();
    session = null;
    composer.clear();
    conversation.clear();
  }
  function show(current) {
    const { connection, problem: problem2, replaced } = current;
    if (connection === "failed" && problem2 !== null && !replaced && isEmpty()) {
      askForToken(`${problem2.title}. ${problem2.advice}`);
      return;
    }
    status.show(current);
    log.refreshCards();
  }
  function isEmpty() {
    return conversation.entries.length === 0;
  }
  function heard(entry) {
    switch (entry.kind) {
      case "reply":
        announcer.say(`Hermes: ${textOf(entry)}`);
        notify(textOf(entry));
        break;
      case "received": {
        const file = `Hermes sent a file: ${entry.file?.name ?? ""}`;
        announcer.say(file);
        notify(file);
        break;
      }
      case "card": {
        const { command, options } = entry.prompt;
        const choices = options.map((option) => option.label).join(", ");
        const text = `${question(entry.prompt)} ${command ?? ""}`;
        announcer.interrupt(`Hermes asks: ${text} Answers: ${choices}.`);
        notify(`Hermes asks: ${text}`);
        break;
      }
      default:
    }
  }
  function enlarge(url, alt) {
    const image = find("enlarged-image", HTMLImageElement);
    image.src = url;
    image.alt = alt;
    find("enlarged", HTMLDialogElement).showModal();
  }
})();
