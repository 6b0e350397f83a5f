/** What the avatar page is told, in its three ways, read into a state. */

export type State = 'idle' | 'thinking' | 'speaking';

const STATES: Readonly<Record<State, string>> = {
  idle: 'Hermes is idle',
  thinking: 'Hermes is thinking',
  speaking: 'Hermes is speaking',
};

/** The state of that name; anything that is none is idle, as the protocol has it. */
export function stateFrom(name: unknown): State {
  const wanted = typeof name === 'string' ? name.trim().toLowerCase() : '';
  return wanted === 'thinking' || wanted === 'speaking' ? wanted : 'idle';
}

export function inWords(state: State): string {
  return STATES[state];
}

/**
 * The state in a message: a name, or `{type: "hermes-avatar", state}`, or that as JSON, because some
 * WebViews pass strings only. Null for a message to somebody else.
 */
export function stateInMessage(data: unknown): State | null {
  let message = data;
  if (typeof data === 'string') {
    if (!data.trimStart().startsWith('{')) return stateFrom(data);
    try {
      message = JSON.parse(data);
    } catch {
      return null;
    }
  }
  if (typeof message !== 'object' || message === null) return null;
  if (!('type' in message) || message.type !== 'hermes-avatar') return null;
  return stateFrom('state' in message ? message.state : undefined);
}

export interface Fragment {
  /** Null where the fragment names none. */
  readonly state: State | null;
  readonly transparent: boolean;
}

/** What `#thinking` or `#state=thinking&transparent=1` say. */
export function fragment(hash: string): Fragment {
  const text = hash.replace(/^#/, '');
  const fields = new URLSearchParams(text);
  const transparent = ['', '1', 'true'].includes(fields.get('transparent') ?? '0');
  const named = fields.get('state');
  if (named !== null) return { state: stateFrom(named), transparent };
  const [first = ''] = text.split('&');
  const bare = first !== '' && !first.includes('=') && first !== 'transparent';
  return { state: bare ? stateFrom(first) : null, transparent };
}
