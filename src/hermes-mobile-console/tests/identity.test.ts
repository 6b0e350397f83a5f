import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configFrom } from '../src/config.ts';
import { deviceId, keepDeviceId, linkIn } from '../src/identity.ts';

test('a link is a token in the fragment, with or without a device', () => {
  assert.deepEqual(linkIn('#token=a%2Bb&device=tel-1'), { token: 'a+b', device: 'tel-1' });
  assert.deepEqual(linkIn('#token=a'), { token: 'a', device: '' });
  for (const hash of ['', '#', '#device=x', '#token=', '#token=%20']) {
    assert.equal(linkIn(hash), null);
  }
});

test('the device id stays in the storage, and where there is none it is made up', () => {
  const kept = new Map<string, string>();
  const storage = (): Storage =>
    ({
      getItem: (key: string) => kept.get(key) ?? null,
      setItem: (key: string, value: string) => kept.set(key, value),
    }) as unknown as Storage;
  keepDeviceId(storage, 'tel-1');
  assert.equal(deviceId(storage), 'tel-1');
  const forbidden = (): Storage => {
    throw new DOMException('no', 'SecurityError');
  };
  keepDeviceId(forbidden, 'tel-1');
  assert.match(deviceId(forbidden), /^web-[0-9a-f]{8}$/);
});

test('the server’s address is the one it names, or the page’s own', () => {
  const page = new URL('https://agent.example/');
  const named = { ws_url: 'ws://127.0.0.1:8787/ws', path: '/ws', version: '1.0.0' };
  assert.equal(configFrom(named, page).url, 'ws://127.0.0.1:8787/ws');
  const own = { ws_url: null, path: '/ws', version: '1.0.0' };
  assert.deepEqual(configFrom(own, page), { url: 'wss://agent.example/ws', version: '1.0.0' });
  const local = new URL('http://localhost:8788/');
  assert.equal(configFrom(own, local).url, 'ws://localhost:8788/ws');
  for (const wrong of [null, [], 'x', {}, { path: 1 }]) {
    assert.throws(() => configFrom(wrong, page));
  }
});
