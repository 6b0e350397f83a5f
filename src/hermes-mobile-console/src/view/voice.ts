/** The recorder in the composer's place: a time that runs, and whether to send. */

import { microphoneProblem, Recording, recordingProblem } from '../recording.ts';
import { minutes } from '../words.ts';
import { wavSeconds } from '../wav.ts';

export interface VoiceElements {
  readonly record: HTMLButtonElement;
  readonly writing: HTMLElement;
  readonly panel: HTMLElement;
  readonly time: HTMLElement;
  readonly cancel: HTMLButtonElement;
  readonly send: HTMLButtonElement;
}

export interface VoiceEvents {
  recorded(file: File): void;
  complain(problem: string): void;
  maxFileBytes(): number;
}

export class Voice {
  readonly #page: VoiceElements;
  readonly #events: VoiceEvents;
  #recording: Recording | null = null;
  #busy = false;
  #ticking: ReturnType<typeof setInterval> | undefined;

  constructor(page: VoiceElements, events: VoiceEvents) {
    this.#page = page;
    this.#events = events;
    page.record.addEventListener('click', () => void this.#start());
    page.cancel.addEventListener('click', () => void this.cancel());
    page.send.addEventListener('click', () => void this.#finish());
    page.panel.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') void this.cancel();
    });
  }

  async cancel(): Promise<void> {
    const recording = this.#end();
    try {
      await recording?.cancel();
    } catch {
      // It is thrown away: how it ends is no matter.
    }
  }

  async #start(): Promise<void> {
    const problem = recordingProblem();
    if (problem !== null) {
      this.#events.complain(problem);
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
    this.#events.complain('');
    this.#show(true);
    this.#page.send.focus();
    this.#ticking = setInterval(() => this.#tick(), 250);
    this.#tick();
  }

  /** What has become too long is sent as far as it fits: nobody wants to say it all again. */
  #tick(): void {
    if (this.#recording === null) return;
    const { length } = this.#recording;
    const most = Math.floor(wavSeconds(this.#events.maxFileBytes())) - 1;
    this.#page.time.textContent = `${minutes(length)} of ${minutes(most)}`;
    if (length >= most) void this.#finish();
  }

  async #finish(): Promise<void> {
    const recording = this.#end();
    if (recording === null) return;
    try {
      const wav = await recording.finish();
      this.#events.recorded(new File([wav as BlobPart], 'voice.wav', { type: 'audio/wav' }));
    } catch {
      this.#events.complain('The recording could not be read. Try again.');
    }
  }

  #end(): Recording | null {
    const recording = this.#recording;
    this.#recording = null;
    clearInterval(this.#ticking);
    if (recording !== null) {
      this.#show(false);
      this.#page.record.focus();
    }
    return recording;
  }

  #show(recording: boolean): void {
    this.#page.writing.hidden = recording;
    this.#page.panel.hidden = !recording;
  }
}
