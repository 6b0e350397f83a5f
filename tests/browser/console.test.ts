/** A conversation in the console, with the real server at the other end. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { browsing, skip, type Tab } from './chromium.ts';
import { serving, TOKEN } from './server.ts';

const PICTURE = join(import.meta.dirname, '../../src/hermes_mobile/agents/samples/image.png');

describe('the console', { skip }, () => {
  const server = serving();
  const browser = browsing(server);

  it('takes the token out of the address bar and the history, and keeps it nowhere', async (t) => {
    const tab = await browser.tab(t);
    const asked: string[] = [];
    tab.page.on('request', (request) => asked.push(request.url()));
    await tab.open('secret-1');
    assert.equal(tab.page.url(), server.page);
    const kept = await tab.page.evaluate(() => [
      ...Object.values(localStorage),
      ...Object.values(sessionStorage),
      document.cookie,
      history.length,
    ]);
    assert.deepEqual(kept, ['secret-1', '', 2]); // about:blank, and the page without its fragment
    assert.deepEqual(
      asked.filter((url) => url.includes(TOKEN)),
      [],
    );
    await tab.page.reload();
    await tab.page.getByLabel('Token').waitFor();
  });

  it('shows a reply while it grows, in one place, until it is told to stop', async (t) => {
    const tab = await browser.tab(t);
    await tab.open('stream-1');
    await tab.say('/stream 10000');
    const growing = tab.page.locator('[data-testid=reply][data-finished=false]');
    await growing.filter({ hasText: 'Sentence 1 of a hundred' }).waitFor();
    await growing.filter({ hasText: 'Sentence 2 of a hundred' }).waitFor();
    assert.equal(await tab.page.getByTestId('presence').innerText(), 'Speaking…');
    await tab.page.getByRole('button', { name: 'Stop' }).click();
    await tab.reply('Stopped: 1 running, 0 waiting.');
    await tab.reply('Sentence 1 of a hundred'); // whole, in so far as it will not grow
    assert.equal(await tab.page.getByTestId('reply').count(), 2);
  });

  it('shows the whole of a streamed reply in the end', async (t) => {
    const tab = await browser.tab(t);
    await tab.open('stream-2');
    await tab.say('/stream 9');
    const reply = await tab.reply('Sentence 1 of a hundred stands in its place.');
    assert.equal(
      await reply.locator('.markdown').innerText(),
      'Sentence 1 of a hundred stands in its place.',
    );
  });

  it('draws Markdown, and HTML as the text that it is', async (t) => {
    const tab = await browser.tab(t);
    await tab.open('markdown-1');
    await tab.say('**bold**, `code`\n\n- one\n\n<img src=x onerror=alert(1)>');
    const reply = await tab.reply('onerror');
    assert.equal(await reply.locator('strong').innerText(), 'bold');
    assert.equal(await reply.locator('li').innerText(), 'one');
    assert.equal(await reply.locator('img').count(), 0);
  });

  const CARDS = [
    {
      kind: 'exec_approval',
      asks: '/run rm -rf /var/cache',
      command: 'rm -rf /var/cache',
      press: 'Allow once',
      outcome: 'Answered: Allow once',
      reply: 'Applied: once',
    },
    {
      kind: 'slash_confirm',
      asks: '/confirm Delete the project?',
      press: 'Cancel',
      outcome: 'Answered: Cancel',
      reply: 'Applied: cancel',
    },
    {
      kind: 'clarify',
      asks: '/ask Which colour? | Red | Green',
      press: 'Green',
      outcome: 'Answered: Green',
      reply: 'Answer: Green',
    },
  ];
  for (const { kind, asks, command, press, outcome, reply } of CARDS) {
    it(`shows a card of the kind ${kind}, and answers it once it was seen`, async (t) => {
      const tab = await browser.tab(t);
      await tab.open(`card-${kind}`);
      await tab.say(asks);
      const card = tab.page.locator(`[data-testid=card][data-kind=${kind}]`);
      await card.waitFor();
      if (command !== undefined) {
        assert.equal(await card.getByTestId('command').innerText(), command);
      }
      // A click waits for a button that is enabled.
      await card.getByRole('button', { name: press, exact: true }).click();
      await tab.reply(reply);
      assert.equal(await card.getByTestId('outcome').innerText(), outcome);
      assert.equal(await card.getAttribute('data-state'), 'closed');
    });
  }

  it('answers a question in words of one’s own', async (t) => {
    const tab = await browser.tab(t);
    await tab.open('card-other');
    await tab.say('/ask Which colour? | Red | Green');
    await tab.page.getByRole('button', { name: 'Other answer' }).click();
    await tab.page.getByLabel('Your answer').fill('Violet');
    await tab.page.getByRole('button', { name: 'Send answer' }).click();
    await tab.reply('Answer: Violet');
    assert.equal(await tab.page.getByTestId('outcome').innerText(), 'Your answer: Violet');
  });

  it('does not take a click that was meant for what stood there before the card', async (t) => {
    const tab = await browser.tab(t);
    await tab.open('card-early');
    await tab.page.evaluate(() => {
      const early = new MutationObserver(() => {
        const allow = document.querySelector<HTMLElement>('[data-option=once]');
        if (allow === null) return;
        early.disconnect();
        allow.click();
      });
      early.observe(document.body, { childList: true, subtree: true });
    });
    await tab.say('/run reboot');
    await tab.page.getByRole('button', { name: 'Deny' }).click();
    await tab.reply('Applied: deny');
  });

  it('sends a picture that is dropped on it, byte for byte, with a caption', async (t) => {
    const tab = await browser.tab(t);
    await tab.open('drop-1');
    await drop(tab, PICTURE);
    await tab.page.getByTestId('attachment').filter({ hasText: 'image.png' }).waitFor();
    await tab.say('What is this?');
    const reply = await tab.reply('kind: image');
    const bytes = readFileSync(PICTURE);
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    assert.deepEqual((await reply.locator('.markdown').innerText()).split('\n'), [
      'kind: image',
      'name: image.png',
      'mime: image/png',
      `size: ${bytes.length} bytes`,
      `sha256: ${sha256}`,
    ]);
    const shared = tab.page.getByTestId('shared');
    await shared.locator('[data-testid=delivery][data-state=sent]').waitFor({ state: 'attached' });
    assert.equal(await shared.getByRole('img', { name: 'What is this?' }).count(), 1);
  });

  it('shows a picture that it receives, and saves it as it came', async (t) => {
    const tab = await browser.tab(t);
    await tab.open('receive-1');
    await tab.say('/image');
    const received = tab.page.locator('[data-testid=received][data-file-kind=image]');
    const width = await received.getByRole('img').evaluate(async (image: HTMLImageElement) => {
      await image.decode();
      return image.naturalWidth;
    });
    assert.ok(width > 1);
    const [download] = await Promise.all([
      tab.page.waitForEvent('download'),
      received.getByRole('link', { name: 'Save' }).click(),
    ]);
    assert.equal(download.suggestedFilename(), 'image.png');
    assert.deepEqual(await readFile(await download.path()), readFileSync(PICTURE));
  });

  for (const [command, kind, tag] of [
    ['/voice', 'voice', 'audio'],
    ['/video', 'video', 'video'],
    ['/animation', 'animation', 'img'],
  ] as const) {
    it(`shows what ${command} sends: its ${tag} can be read`, async (t) => {
      const tab = await browser.tab(t);
      await tab.open(`receive-${kind}`);
      await tab.say(command);
      const media = tab.page.locator(`[data-file-kind=${kind}] ${tag}`);
      await media.evaluate(async (element) => {
        if (element instanceof HTMLImageElement) return element.decode();
        const player = element as HTMLMediaElement;
        if (player.readyState >= HTMLMediaElement.HAVE_METADATA) return;
        await new Promise((resolve, reject) => {
          player.addEventListener('loadedmetadata', resolve);
          player.addEventListener('error', reject);
        });
      });
    });
  }

  it('records a voice message and sends it as WAV', async (t) => {
    const tab = await browser.tab(t);
    await tab.open('voice-1');
    await tab.page.getByRole('button', { name: 'Record a voice message' }).click();
    // The time is rounded up: at 0:02 there is a second of sound.
    await tab.page.getByRole('timer').filter({ hasText: '0:02' }).waitFor();
    await tab.page.getByRole('button', { name: 'Send voice' }).click();
    const reply = await tab.reply('format: wav');
    const bytes = Number(/size: (\d+) bytes/.exec(await reply.innerText())?.[1]);
    assert.ok(bytes > 16_000, `${bytes} bytes`); // a second has 32,000
    assert.equal(await tab.page.getByTestId('shared').locator('audio').count(), 1);
  });

  it('is used by the keyboard alone', async (t) => {
    const tab = await browser.tab(t);
    const { keyboard } = tab.page;
    await tab.page.goto(server.page);
    await keyboard.type(TOKEN); // the field has the focus
    await keyboard.press('Enter');
    await tab.connection('connected');
    await keyboard.type('/run ls'); // and now the message has it
    await keyboard.press('Enter');
    const deny = tab.page.locator('[data-option=deny][aria-disabled=false]');
    await deny.waitFor();
    const focused = tab.page.locator('[data-option=deny]:focus');
    for (let presses = 0; presses < 10 && (await focused.count()) === 0; presses++) {
      await keyboard.press('Shift+Tab');
    }
    await keyboard.press('Enter');
    await tab.reply('Applied: deny');
  });
});

/** Drops a file of this machine in the middle of the page, as a hand would. */
async function drop({ page }: Tab, path: string): Promise<void> {
  const devtools = await page.context().newCDPSession(page);
  const data = { items: [], files: [path], dragOperationsMask: 1 };
  for (const type of ['dragEnter', 'dragOver', 'drop'] as const) {
    await devtools.send('Input.dispatchDragEvent', { type, x: 640, y: 400, data });
  }
  await devtools.detach();
}
