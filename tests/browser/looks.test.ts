/** What the pages look like, to people and to axe-core; the pictures go to `screenshots`. */

import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import type { BrowserContextOptions } from 'playwright-core';
import { browsing, skip } from './chromium.ts';
import { serving } from './server.ts';

const MARKDOWN = `## Deploying
Some **bold**, *it*, \`code\` and https://example.org/x.

- one
- two
  - nested

> a quote

\`\`\`python
def f(x):
    return x + 1
\`\`\`

| Host | State |
|---|---|
| alpha | up |`;

const SCREENS: Readonly<Record<string, BrowserContextOptions>> = {
  desktop: {},
  dark: { colorScheme: 'dark' },
  phone: {
    viewport: { width: 360, height: 740 },
    deviceScaleFactor: 2,
    isMobile: true,
    hasTouch: true,
  },
};

describe('the looks', { skip }, () => {
  const server = serving();
  const browser = browsing(server);

  for (const [screen, options] of Object.entries(SCREENS)) {
    it(`of the console: ${screen}`, async (t: TestContext) => {
      const tab = await browser.tab(t, await browser.profile(t, options));
      const look = async (name: string): Promise<void> => {
        await tab.photograph(`${screen}-${name}`);
        assert.deepEqual(await tab.barriers(), [], name);
      };

      await tab.page.goto(server.page);
      await tab.page.getByLabel('Token').waitFor();
      await look('1-sign-in');

      await tab.open(`looks-${screen}`);
      await look('2-empty');

      await tab.say(MARKDOWN);
      await tab.reply('alpha');
      await look('3-conversation');

      await tab.say('/run find / -name "*.log" -mtime +30 -print0 | xargs -0 rm -f');
      await tab.page.locator('[data-option=deny][aria-disabled=false]').waitFor();
      await look('4-card');
      await tab.page.getByRole('button', { name: 'Deny' }).click();
      await tab.reply('Applied: deny');

      await tab.page.locator('#file').setInputFiles({
        name: 'notes.txt',
        mimeType: 'text/plain',
        buffer: Buffer.from('notes'),
      });
      await tab.page.getByTestId('attachment').waitFor();
      await look('5-attachment');
      await tab.say('The notes');
      await tab.reply('name: notes.txt');

      await tab.page.getByRole('button', { name: 'Record a voice message' }).click();
      await tab.page.getByRole('button', { name: 'Send voice' }).waitFor();
      await look('6-recording');
      await tab.page.getByRole('button', { name: 'Cancel', exact: true }).click();

      await tab.say('/image');
      await tab.page.locator('[data-file-kind=image] img').waitFor();
      await tab.say('/fail');
      await tab.page.getByTestId('notice').waitFor();
      await look('7-picture-and-failure');
    });
  }

  it('of the avatar: each state, told in each of the three ways', async (t) => {
    const tab = await browser.tab(t);
    await tab.page.setViewportSize({ width: 400, height: 400 });
    const shows = (state: string): Promise<void> =>
      tab.page.locator(`:root[data-state=${state}]`).waitFor({ state: 'attached' });

    await tab.page.goto(`${server.page}avatar/`);
    await shows('idle');
    await tab.photograph('avatar-idle');
    assert.deepEqual(await tab.barriers(), []);

    await tab.page.evaluate(() => window.postMessage({ type: 'hermes-avatar', state: 'thinking' }));
    await shows('thinking');
    await tab.photograph('avatar-thinking');

    await tab.page.evaluate("hermesAvatar.setState('speaking')");
    await shows('speaking');
    await tab.photograph('avatar-speaking');

    await tab.page.goto(`${server.page}avatar/#state=thinking&transparent=1`);
    await shows('thinking');
    await tab.page.evaluate(() => window.postMessage('asleep'));
    await shows('idle');
  });
});
