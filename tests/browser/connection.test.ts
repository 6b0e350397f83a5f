/** What the console says and does when it has no connection, or may not have one. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { browsing, skip } from './chromium.ts';
import { serving, TOKEN } from './server.ts';

describe('the connection', { skip }, () => {
  const server = serving();
  const browser = browsing(server);

  it('survives a restart of the server: what was written meanwhile is sent', async (t) => {
    const tab = await browser.tab(t);
    tab.expected = /ERR_CONNECTION_REFUSED/;
    await tab.open('restart-1');
    await tab.say('before');
    await tab.reply('before');
    assert.equal(await server.stop(), 0);
    await tab.connection('reconnecting');
    await tab.say('written meanwhile');
    const meanwhile = tab.page.getByTestId('said').filter({ hasText: 'written meanwhile' });
    await meanwhile.locator('[data-testid=delivery][data-state=waiting]').waitFor();
    assert.match(await tab.banner(), /This page keeps trying\.\s+Try now$/);
    await server.start();
    await tab.connection('connected');
    await tab.reply('written meanwhile');
    assert.equal(await tab.page.getByTestId('banner').isVisible(), false);
    assert.equal(await meanwhile.count(), 1);
    assert.equal(await tab.page.getByTestId('reply').count(), 2);
  });

  it('is refused with a wrong token, in words, and is there with the right one', async (t) => {
    const tab = await browser.tab(t);
    await tab.page.goto(server.page);
    await tab.page.getByLabel('Token').fill('a wrong token');
    await tab.page.getByRole('button', { name: 'Connect' }).click();
    await tab.page.getByRole('alert').filter({ hasText: 'Access denied.' }).waitFor();
    assert.equal(
      await tab.page.locator('#sign-in-problem').innerText(),
      'Access denied. The token is not valid here, or the server does not admit this device. ' +
        'Check both with whoever runs the server.',
    );
    await tab.page.getByLabel('Token').fill(TOKEN);
    await tab.page.getByRole('button', { name: 'Connect' }).click();
    await tab.connection('connected');
  });

  it('is in the newer of two tabs, which are one device, and can be taken back', async (t) => {
    const profile = await browser.profile(t);
    const older = await browser.tab(t, profile);
    await older.open('tabs-1');
    const newer = await browser.tab(t, profile);
    await newer.page.goto(server.page);
    await newer.page.getByLabel('Token').fill(TOKEN); // the device's name stands there already
    await newer.page.getByRole('button', { name: 'Connect' }).click();
    await newer.connection('connected');
    await older.connection('failed');
    assert.match(await older.banner(), /^Open somewhere else\..*Use it here$/s);

    await older.page.getByRole('button', { name: 'Use it here' }).click();
    await older.connection('connected');
    await newer.connection('failed');
    await older.say('here');
    await older.reply('here');
    assert.equal(await newer.page.getByTestId('reply').count(), 0);
  });

  it('is left alone by a page that was replaced, however long it stays open', async (t) => {
    const older = await browser.tab(t);
    await older.page.clock.install();
    await older.open('tabs-2');
    const newer = await browser.tab(t);
    await newer.open('tabs-2');
    await older.connection('failed');
    await older.page.clock.runFor('10:00');
    await newer.say('here');
    await newer.reply('here');
    assert.deepEqual([older.sockets, newer.sockets], [1, 1]);
  });
});
