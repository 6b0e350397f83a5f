/** Where the server is: it says so itself, in `config.json` beside this page. */

export interface Config {
  readonly url: string;
  readonly version: string;
}

/** The address of the WebSocket from the answer; the page's own origin where it names none. */
export function configFrom(answer: unknown, page: URL): Config {
  const fields = typeof answer === 'object' && answer !== null ? answer : {};
  const version = 'version' in fields && typeof fields.version === 'string' ? fields.version : '';
  if ('ws_url' in fields && typeof fields.ws_url === 'string') {
    return { url: fields.ws_url, version };
  }
  if ('path' in fields && typeof fields.path === 'string') {
    const scheme = page.protocol === 'https:' ? 'wss:' : 'ws:';
    return { url: `${scheme}//${page.host}${fields.path}`, version };
  }
  throw new Error('config.json names no address');
}

export async function loadConfig(): Promise<Config> {
  const response = await fetch('config.json', { cache: 'no-store' });
  if (!response.ok) throw new Error(`config.json: status ${response.status}`);
  return configFrom(await response.json(), new URL(location.href));
}
