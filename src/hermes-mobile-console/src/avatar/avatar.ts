/** The avatar page: a figure with three states, for an app's WebView, a frame, or a window. */

import { fragment, inWords, stateFrom, stateInMessage, type State } from './state.ts';

declare global {
  interface Window {
    /** For apps that run scripts in their WebView. */
    hermesAvatar: {
      /** Shows a state; an unknown one shows `idle`. */
      setState(name: unknown): void;
      readonly state: State;
    };
  }
}

const figure = document.querySelector('#figure');
let current: State = 'idle';

function show(state: State): void {
  current = state;
  document.documentElement.dataset['state'] = state;
  figure?.setAttribute('aria-label', inWords(state));
}

function showFragment(): void {
  const { state, transparent } = fragment(location.hash);
  document.documentElement.toggleAttribute('data-transparent', transparent);
  if (state !== null) show(state);
}

function heard(event: Event): void {
  const state = event instanceof MessageEvent ? stateInMessage(event.data) : null;
  if (state !== null) show(state);
}

window.hermesAvatar = {
  setState: (name) => show(stateFrom(name)),
  get state() {
    return current;
  },
};
// Any page may tell: there is nothing here but a figure. React Native on Android tells the document.
window.addEventListener('message', heard);
document.addEventListener('message', heard);
window.addEventListener('hashchange', showFragment);
show('idle');
showFragment();
