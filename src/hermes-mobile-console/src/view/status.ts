/** The connection, the agent's state and the avatar, as the page shows them. */

import type { AvatarState, ConnectionState } from '../client.ts';
import type { Status } from '../session.ts';

export interface StatusElements {
  readonly avatar: HTMLIFrameElement;
  readonly presence: HTMLElement;
  readonly connection: HTMLElement;
  readonly address: HTMLElement;
  readonly working: HTMLElement;
  readonly banner: HTMLElement;
  readonly bannerTitle: HTMLElement;
  readonly bannerAdvice: HTMLElement;
  readonly bannerAction: HTMLButtonElement;
}

export interface StatusEvents {
  /** Connect now: again, or for the first time after another tab took over. */
  connect(): void;
  /** Ask for another token. */
  signIn(): void;
}

const CONNECTIONS: Readonly<Record<ConnectionState, string>> = {
  idle: 'Not connected',
  connecting: 'Connecting…',
  connected: 'Connected',
  reconnecting: 'Reconnecting…',
  failed: 'Not connected',
};

const PRESENCES: Readonly<Record<AvatarState, string>> = {
  idle: 'Idle',
  thinking: 'Thinking…',
  speaking: 'Speaking…',
};

/** Retries as short as these are not worth a banner. */
const QUIET_ATTEMPTS = 1;

export class StatusView {
  readonly #page: StatusElements;
  readonly #events: StatusEvents;
  #signInNext = false;
  #avatar: AvatarState = 'idle';

  constructor(page: StatusElements, events: StatusEvents) {
    this.#page = page;
    this.#events = events;
    page.bannerAction.addEventListener('click', () => {
      if (this.#signInNext) this.#events.signIn();
      else this.#events.connect();
    });
    page.avatar.addEventListener('load', () => this.#showAvatar());
    page.avatar.src = 'avatar/#transparent=1';
  }

  show(status: Status): void {
    const { presence, connection, address, working } = this.#page;
    setText(connection, CONNECTIONS[status.connection]);
    connection.dataset['state'] = status.connection;
    setText(presence, PRESENCES[status.avatar]);
    setText(address, status.address);
    working.hidden = !status.working;
    this.#avatar = status.avatar;
    this.#showAvatar();
    this.#showBanner(status);
  }

  #showAvatar(): void {
    const message = { type: 'hermes-avatar', state: this.#avatar };
    this.#page.avatar.contentWindow?.postMessage(message, location.origin);
  }

  #showBanner({ connection, attempt, problem, replaced }: Status): void {
    const { banner, bannerTitle, bannerAdvice, bannerAction } = this.#page;
    const quiet = connection === 'reconnecting' && attempt <= QUIET_ATTEMPTS;
    banner.hidden = problem === null || quiet;
    if (problem === null || quiet) return;
    const again = connection === 'reconnecting';
    this.#signInNext = !again && !replaced;
    setText(bannerTitle, `${problem.title}.`);
    setText(bannerAdvice, again ? `${problem.advice} This page keeps trying.` : problem.advice);
    setText(bannerAction, again ? 'Try now' : replaced ? 'Use it here' : 'Sign in again');
    banner.dataset['tone'] = again ? 'calm' : 'grave';
  }
}

/** Sets a text only when it is another: live regions repeat themselves otherwise. */
function setText(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
