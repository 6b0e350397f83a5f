import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { backoffMs } from '../dist/esm/backoff.js';
import { HermesClient } from '../dist/esm/hermesClient.js';
import { connected, DEVICE, OFFLINE, pass, ready, stage, TRANSPORT } from './gateway.ts';

describe('connecting', () => {
  it('says hello with the token, the device and the user, and nowhere else with the token', (t) => {
    const { client, gateway } = stage(t, { user: { id: 'u-1', name: 'Eugene' } });
    client.connect();
    gateway.opens();
    assert.equal(gateway.socket.url, 'wss://agent.example.com/ws');
    assert.deepEqual(gateway.socket.sent, [
      {
        t: 'hello',
        v: 1,
        token: 's3cret',
        device: { id: 'tel-1', name: 'Phone', platform: 'android', app_version: '1.0.0' },
        user: { id: 'u-1', name: 'Eugene' },
        receipts: true,
      },
    ]);
  });

  it('reports connecting, connected, and then what ready says', (t) => {
    const { client, gateway, events } = stage(t);
    client.connect();
    assert.equal(client.ready, false);
    gateway.welcomes();
    assert.equal(client.ready, true);
    const { t: _, ...payload } = ready();
    assert.deepEqual(events, [
      ['state', 'connecting'],
      ['state', 'connected'],
      ['ready', payload],
    ]);
  });

  it('does nothing on a second connect, while connecting and while connected (T1)', (t) => {
    const { client, gateway, news } = stage(t);
    client.connect();
    client.connect();
    gateway.welcomes();
    news();
    client.connect();
    assert.equal(gateway.sockets.length, 1);
    assert.deepEqual(news(), []);
  });

  it('throws for an address that is none, and stays as it was', (t) => {
    const { client, events } = stage(t, { url: 'nowhere' });
    assert.throws(() => client.connect(), SyntaxError);
    assert.deepEqual(events, []);
    client.sendText('hi');
    assert.deepEqual(events, [OFFLINE]);
  });

  it('goes idle on disconnect, and tries nothing more', (t) => {
    const { client, gateway, events } = connected(t);
    client.disconnect();
    assert.equal(client.ready, false);
    assert.equal(gateway.socket.closedWith, 1000);
    client.disconnect();
    pass(t, 100_000);
    assert.equal(gateway.sockets.length, 1);
    assert.deepEqual(events, [['state', 'idle']]);
  });

  it('cancels the next attempt on disconnect', (t) => {
    const { client, gateway, news } = connected(t);
    gateway.closes(1006);
    client.disconnect();
    pass(t, 100_000);
    assert.equal(gateway.sockets.length, 1);
    assert.deepEqual(news(), [
      ['state', 'reconnecting', 'попытка 1'],
      ['state', 'idle'],
    ]);
  });

  it('lets a callback disconnect before ready is told', (t) => {
    const { client, gateway, events } = stage(t);
    client.setHandlers({ onState: (state) => state === 'connected' && client.disconnect() });
    client.connect();
    gateway.welcomes();
    assert.deepEqual(events, []);
    assert.equal(gateway.socket.closedWith, 1000);
  });

  it('merges handlers over those that are set', (t) => {
    const { client, gateway, news } = connected(t);
    const avatars: string[] = [];
    client.setHandlers({ onAvatar: (state) => avatars.push(state) });
    gateway.sends({ t: 'avatar', state: 'thinking' }, { t: 'typing' });
    assert.deepEqual(avatars, ['thinking']);
    assert.deepEqual(news(), [['typing']]);
  });

  it('works without any handler', (t) => {
    const { gateway } = stage(t);
    const client = new HermesClient({ url: 'ws://localhost/ws', token: '', device: DEVICE });
    client.connect();
    gateway.welcomes();
    gateway.sends({ t: 'message', id: 'r1', text: 'hi', final: true }, { t: 'typing' });
    gateway.closes(1008);
    client.sendText('hi');
    assert.equal(client.ready, false);
  });
});

describe('the end of a connection', () => {
  it('is followed by attempts with full jitter below a doubling ceiling (T2)', (t) => {
    const { gateway, news } = connected(t, { maxBackoffMs: 3000 });
    gateway.closes(1006);
    // Half of 500, 1000, 2000, 3000, 3000.
    for (const [index, pause] of [250, 500, 1000, 1500, 1500].entries()) {
      const attempt = index + 1;
      assert.deepEqual(news().at(-1), ['state', 'reconnecting', `попытка ${attempt}`]);
      pass(t, pause - 1);
      assert.equal(gateway.sockets.length, attempt);
      pass(t, 1);
      assert.equal(gateway.sockets.length, attempt + 1);
      gateway.fails();
    }
  });

  it('pauses anywhere between nothing and the ceiling (T2)', () => {
    assert.equal(
      backoffMs(3, 15_000, () => 0),
      0,
    );
    assert.equal(
      backoffMs(3, 15_000, () => 0.25),
      1000,
    );
    assert.equal(
      backoffMs(5000, 15_000, () => 1),
      15_000,
    );
  });

  it('reports a transport error, then the reconnection (T2)', (t) => {
    const { client, gateway, news } = stage(t);
    client.connect();
    gateway.fails();
    assert.deepEqual(news(), [
      ['state', 'connecting'],
      TRANSPORT,
      ['state', 'reconnecting', 'попытка 1'],
    ]);
    pass(t, 250);
    gateway.welcomes();
    assert.deepEqual(
      news()
        .map(([name, state]) => [name, state])
        .slice(0, 1),
      [['state', 'connected']],
    );
  });

  it('is assumed when an error is not followed by a close', (t) => {
    const { client, gateway, news } = stage(t);
    client.connect();
    gateway.socket.onerror?.();
    pass(t, 999);
    assert.deepEqual(news(), [['state', 'connecting'], TRANSPORT]);
    pass(t, 1);
    assert.deepEqual(news(), [['state', 'reconnecting', 'попытка 1']]);
  });

  it('counts the attempts anew after 10 s of life after ready, and not before (T2)', (t) => {
    const { gateway, news } = connected(t);
    gateway.closes(1006);
    pass(t, 250);
    gateway.welcomes();
    pass(t, 9999);
    gateway.closes(1001, 'shutdown');
    assert.deepEqual(news().at(-1), ['state', 'reconnecting', 'попытка 2']);
    pass(t, 500);
    gateway.welcomes();
    pass(t, 10_000);
    gateway.closes(1011);
    assert.deepEqual(news().at(-1), ['state', 'reconnecting', 'попытка 1']);
  });

  it('skips the pause when the app says connect', (t) => {
    const { client, gateway, news } = connected(t);
    gateway.closes(1006);
    client.connect();
    client.connect();
    assert.equal(gateway.sockets.length, 2);
    pass(t, 20_000);
    assert.equal(gateway.sockets.length, 2);
    gateway.welcomes();
    assert.deepEqual(
      news()
        .map(([, state]) => state)
        .slice(0, 2),
      ['reconnecting', 'connected'],
    );
  });

  it('is final with 1008: failed, then auth_failed, and no attempt (T3)', (t) => {
    const { client, gateway, news } = stage(t);
    client.connect();
    gateway.opens();
    gateway.sends({ t: 'error', code: 'forbidden', message: 'device: taken', fatal: true });
    gateway.closes(1008, 'forbidden');
    pass(t, 100_000);
    assert.equal(gateway.sockets.length, 1);
    assert.deepEqual(news(), [
      ['state', 'connecting'],
      ['error', { code: 'forbidden', message: 'device: taken', fatal: true }],
      ['state', 'failed'],
      ['error', { code: 'auth_failed', message: 'Шлюз отказал в доступе', fatal: true }],
    ]);
    client.connect();
    assert.deepEqual(news(), [['state', 'connecting']]);
    assert.equal(gateway.sockets.length, 2);
  });

  it('is final with 4001: failed, then replaced, and no attempt (T4)', (t) => {
    const { gateway, news } = connected(t);
    gateway.closes(4001, 'replaced');
    pass(t, 100_000);
    assert.equal(gateway.sockets.length, 1);
    assert.deepEqual(news(), [
      ['state', 'failed'],
      [
        'error',
        { code: 'replaced', message: 'Устройство подключилось в другом месте', fatal: true },
      ],
    ]);
  });

  it('is followed by attempts even where a callback throws', (t) => {
    const { client, gateway } = connected(t);
    client.setHandlers({
      onState: () => {
        throw new Error('the app is at fault');
      },
    });
    assert.throws(() => gateway.closes(1006), /the app is at fault/);
    pass(t, 250);
    assert.equal(gateway.sockets.length, 2);
  });

  it('silences the old socket for good (T5)', (t) => {
    const { client, gateway, news } = connected(t);
    const old = gateway.socket;
    client.disconnect();
    client.connect();
    news();
    old.onopen?.();
    old.onmessage?.({ data: '{"t":"typing"}' });
    old.onerror?.();
    gateway.closes(4001, 'replaced', old);
    pass(t, 5000);
    assert.deepEqual(news(), []);
    assert.equal(old.sent.length, 1);
  });
});

describe('keep-alive (T5)', () => {
  it('pings after 25 s in which nothing arrived', (t) => {
    const { gateway } = connected(t);
    pass(t, 24_999);
    gateway.sends({ t: 'typing' });
    pass(t, 24_999);
    assert.deepEqual(gateway.received, []);
    pass(t, 1);
    assert.deepEqual(gateway.received, [{ t: 'ping', ts: 49_999 }]);
    gateway.sends({ t: 'pong', ts: 49_999 });
    pass(t, 25_000);
    assert.equal(gateway.received.length, 2);
  });

  it('gives the socket up 45 s later, and reconnects without waiting for it to close', (t) => {
    const { gateway, news } = connected(t);
    pass(t, 25_000 + 44_999);
    assert.deepEqual(news(), []);
    pass(t, 1);
    assert.deepEqual(news(), [['state', 'reconnecting', 'попытка 1']]);
    assert.equal(gateway.socket.readyState, 2);
    pass(t, 250);
    assert.equal(gateway.sockets.length, 2);
  });

  it('is not fooled by what the app sends into a dead link', (t) => {
    const { client, news } = connected(t);
    for (let second = 0; second < 70; second++) {
      client.sendTyping();
      pass(t, 1000);
    }
    assert.deepEqual(news(), [['state', 'reconnecting', 'попытка 1']]);
  });

  it('lets an upload take its time as long as its bytes move', (t) => {
    const { gateway, news } = connected(t);
    gateway.socket.bufferedAmount = 200;
    pass(t, 25_000);
    for (let second = 0; second < 120; second++) {
      gateway.socket.bufferedAmount -= 1;
      pass(t, 1000);
    }
    assert.deepEqual(news(), []);
    pass(t, 44_999);
    assert.deepEqual(news(), []);
    pass(t, 1);
    assert.deepEqual(news(), [['state', 'reconnecting', 'попытка 1']]);
  });

  it('gives up a socket that hangs in closing', (t) => {
    const { gateway, news } = connected(t);
    gateway.socket.readyState = 2;
    pass(t, 25_000);
    assert.deepEqual(news(), [['state', 'reconnecting', 'попытка 1']]);
  });

  it('notices a gateway that never answers hello', (t) => {
    const { client, gateway, news } = stage(t);
    client.connect();
    gateway.opens();
    pass(t, 70_000);
    assert.deepEqual(news().at(-1), ['state', 'reconnecting', 'попытка 1']);
  });

  it('is off with 0', (t) => {
    const { gateway, news } = connected(t, { keepAliveMs: 0 });
    pass(t, 200_000);
    assert.deepEqual(gateway.received, []);
    assert.deepEqual(news(), []);
  });

  it('takes its times from the options', (t) => {
    const { gateway, news } = connected(t, { keepAliveMs: 100, keepAliveTimeoutMs: 50 });
    pass(t, 100);
    assert.equal(gateway.received.length, 1);
    pass(t, 50);
    assert.equal(news().length, 1);
  });
});
