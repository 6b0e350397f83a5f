/** A voice recording: the microphone through MediaRecorder, then to WAV, which every agent takes. */

import { encodeWav, mono, VOICE_RATE } from './wav.ts';

/** Why recording cannot even begin here, in words, or null. */
export function recordingProblem(): string | null {
  if (!window.isSecureContext) return 'Browsers record only over https, or from localhost.';
  const can = 'MediaRecorder' in window && 'mediaDevices' in navigator;
  return can ? null : 'This browser cannot record.';
}

/** What went wrong when the microphone was asked for, in words. */
export function microphoneProblem(error: unknown): string {
  const name = error instanceof DOMException ? error.name : '';
  switch (name) {
    case 'NotAllowedError':
      return 'The microphone is not allowed for this page. The browser’s site settings can change that.';
    case 'NotFoundError':
      return 'There is no microphone.';
    case 'NotReadableError':
      return 'The microphone is in use by another program.';
    default:
      return 'The microphone could not be started.';
  }
}

export class Recording {
  readonly startedAt = performance.now();
  readonly #stream: MediaStream;
  readonly #recorder: MediaRecorder;
  readonly #chunks: Blob[] = [];

  /** Asks for the microphone and begins. *Errors*: those of `getUserMedia`. */
  static async start(): Promise<Recording> {
    const stream = await navigator.mediaDevices.getUserMedia({
      audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true },
    });
    try {
      return new Recording(stream);
    } catch (error) {
      release(stream);
      throw error;
    }
  }

  private constructor(stream: MediaStream) {
    this.#stream = stream;
    this.#recorder = new MediaRecorder(stream);
    this.#recorder.addEventListener('dataavailable', ({ data }) => this.#chunks.push(data));
    this.#recorder.start();
  }

  /** In seconds. */
  get length(): number {
    return (performance.now() - this.startedAt) / 1000;
  }

  /** Ends it, and returns it as a WAV file. *Errors*: an Error when there is nothing in it. */
  async finish(): Promise<Uint8Array> {
    await this.#stop();
    const recorded = await new Blob(this.#chunks).arrayBuffer();
    // Decoding in a context of that rate resamples.
    const audio = await new OfflineAudioContext(1, 1, VOICE_RATE).decodeAudioData(recorded);
    const channels = Array.from({ length: audio.numberOfChannels }, (_, n) =>
      audio.getChannelData(n),
    );
    const samples = mono(channels);
    if (samples.length === 0) throw new Error('the recording is empty');
    return encodeWav(samples);
  }

  async cancel(): Promise<void> {
    await this.#stop();
  }

  async #stop(): Promise<void> {
    try {
      if (this.#recorder.state === 'inactive') return;
      const stopped = new Promise((resolve) => {
        this.#recorder.addEventListener('stop', resolve, { once: true });
      });
      this.#recorder.stop();
      await stopped;
    } finally {
      release(this.#stream);
    }
  }
}

/** Gives the microphone back: the browser's sign that it listens goes out. */
function release(stream: MediaStream): void {
  for (const track of stream.getTracks()) track.stop();
}
