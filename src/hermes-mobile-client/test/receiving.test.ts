import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { connected, pass, ready, stage, type Frame, type Stage } from './gateway.ts';

function message(id: string, text: string, rest: Frame = {}): Frame {
  return { t: 'message', id, text, chunk: { index: 0, total: 1 }, final: true, ...rest };
}

function chunk(id: string, part: number, parts: number, data: string, rest: Frame = {}): Frame {
  const about = { kind: 'document', mime: 'text/plain', filename: 'log.txt', size: 6 };
  return { t: 'media', id, ...about, part, parts, final: part === parts - 1, data, ...rest };
}

/** The names and main arguments of events, short enough to compare. */
function short(events: unknown[][]): string[] {
  return events.map(([name, payload]) => {
    const { id, text, data } = payload as { id?: string; text?: string; data?: string };
    return [name, id, text ?? data].filter((part) => part !== undefined).join(' ');
  });
}

function reconnect(t: Parameters<typeof pass>[0], { gateway, news }: Stage): void {
  gateway.closes(1006);
  pass(t, 20_000);
  gateway.welcomes();
  news();
}

describe('frames that mean nothing to this client (T7)', () => {
  it('are ignored', (t) => {
    const { gateway, news } = connected(t);
    for (const data of [
      'hello',
      '',
      '[{"t":"typing"}]',
      '"typing"',
      'null',
      '1',
      '{}',
      '{"t":7}',
      '{"t":"hologram","id":"x"}',
      '{"t":"pong","ts":1}',
      '{"t":"delivered","id":"d1","device":"tel-1"}',
      '{"t":"constructor"}',
    ]) {
      gateway.sendsRaw(data);
    }
    gateway.sendsRaw(new ArrayBuffer(3));
    assert.deepEqual(news(), []);
  });

  it('and so are unknown fields and the case of the type', (t) => {
    const { gateway, news } = connected(t);
    gateway.sends({ ...message('r1', 'hi'), t: ' Message ', colour: { a: [1] } });
    assert.deepEqual(news(), [
      ['message', { id: 'r1', text: 'hi', index: 0, total: 1, final: true }],
    ]);
  });

  it('a gateway of an older kind is met half-way', (t) => {
    const { client, gateway, news } = stage(t);
    client.connect();
    gateway.opens();
    gateway.sends(
      { t: 'ready' },
      { t: 'message', id: 'r1', text: 'hi' },
      { t: 'avatar', state: 'asleep' },
    );
    assert.deepEqual(news().slice(2), [
      [
        'ready',
        {
          v: 1,
          session: '',
          device: { id: '', name: '' },
          avatar_url: '',
          capabilities: { text: true, voice: true, typing: true },
        },
      ],
      ['message', { id: 'r1', text: 'hi', index: 0, total: 1, final: false }],
      ['avatar', 'idle'],
    ]);
  });
});

describe('repeats (T8)', () => {
  it('a message that was told is not told again, on this connection or the next', (t) => {
    const set = connected(t);
    const pieces = [
      message('r1', 'a', { chunk: { index: 0, total: 2 }, final: false }),
      message('r1', 'b', { chunk: { index: 1, total: 2 } }),
    ];
    set.gateway.sends(...pieces, ...pieces);
    assert.deepEqual(short(set.news()), ['message r1 a', 'message r1 b']);
    reconnect(t, set);
    set.gateway.sends(...pieces);
    assert.deepEqual(set.news(), []);
  });

  it('a message that was cut off by the end goes on', (t) => {
    const set = connected(t);
    const first = message('r1', 'a', { chunk: { index: 0, total: 2 }, final: false });
    set.gateway.sends(first);
    reconnect(t, set);
    set.gateway.sends(first, message('r1', 'b', { chunk: { index: 1, total: 2 } }));
    assert.deepEqual(short(set.news()), ['message r1 b']);
  });

  it('a change of the text, of edit or of final is no repeat', (t) => {
    const { gateway, news } = connected(t);
    gateway.sends(
      message('r1', 'It', { final: false }),
      message('r1', 'It', { final: false, edit: true }),
      message('r1', 'It rains', { final: false, edit: true }),
      message('r1', 'It rains', { final: false, edit: true }),
      message('r1', 'It rains', { edit: true }),
      message('r2', 'It rains'),
    );
    assert.deepEqual(short(news()), [
      'message r1 It',
      'edit r1 It',
      'edit r1 It rains',
      'edit r1 It rains',
      'message r2 It rains',
    ]);
  });

  it('an edit that returns to an earlier text is told', (t) => {
    const { gateway, news } = connected(t);
    for (const text of ['a', 'b', 'a']) gateway.sends(message('r1', text, { edit: true }));
    assert.deepEqual(short(news()), ['edit r1 a', 'edit r1 b', 'edit r1 a']);
  });

  it('an edit of an unknown message is passed on', (t) => {
    const { gateway, news } = connected(t);
    gateway.sends(message('r1', 'hi', { edit: true }));
    assert.deepEqual(news(), [
      ['edit', { id: 'r1', text: 'hi', index: 0, total: 1, final: true, edit: true }],
    ]);
  });

  it('a stream that begins anew on the next connection goes on as an edit (D29, D32)', (t) => {
    const set = connected(t);
    set.gateway.sends(
      message('r1', 'It', { final: false }),
      message('r1', 'It rains', { final: false, edit: true }),
    );
    reconnect(t, set);
    set.gateway.sends(
      message('r1', 'It rains', { final: false }),
      message('r1', 'It rains.', { edit: true }),
    );
    assert.deepEqual(short(set.news()), ['edit r1 It rains.']);

    set.gateway.sends(message('r2', 'So', { final: false }));
    reconnect(t, set);
    set.gateway.sends(message('r2', 'So what?'));
    assert.deepEqual(short(set.news()), ['edit r2 So what?']);
  });

  it('a finished file and a card are told once; the end of a card as often as it is said', (t) => {
    const set = connected(t);
    const card: Frame = {
      t: 'prompt',
      id: 'p1',
      kind: 'clarify',
      text: '?',
      options: [],
      session: '',
    };
    const unit = [chunk('f1', 0, 1, 'bG9n'), card, { t: 'prompt_done', id: 'p1', option_id: 'c0' }];
    set.gateway.sends(...unit, ...unit);
    assert.deepEqual(short(set.news()), [
      'media f1 bG9n',
      'prompt p1 ?',
      'prompt done p1',
      'prompt done p1',
    ]);
    reconnect(t, set);
    set.gateway.sends(...unit);
    assert.deepEqual(short(set.news()), ['prompt done p1']);
  });

  it('a message, a file and a card with one id are three things (D25)', (t) => {
    const { gateway, news } = connected(t);
    gateway.sends(message('d1', 'done'), chunk('d1', 0, 1, 'bG9n'), {
      t: 'prompt',
      id: 'd1',
      kind: 'clarify',
      text: '?',
      options: [],
    });
    assert.deepEqual(short(news()), ['message d1 done', 'media d1 bG9n', 'prompt d1 ?']);
  });

  it('are known over the last 256 ids', (t) => {
    const { gateway, news } = connected(t);
    for (let n = 0; n < 256; n++) gateway.sends(message(`r${n}`, 'hi'), chunk(`f${n}`, 0, 1, ''));
    news();
    gateway.sends(message('r0', 'hi'), message('r256', 'hi'), message('r1', 'hi'));
    assert.deepEqual(short(news()), ['message r256 hi', 'message r1 hi']);
    gateway.sends(chunk('f256', 0, 1, ''), chunk('f0', 0, 1, ''), chunk('f255', 0, 1, ''));
    assert.deepEqual(short(news()), ['media f256 ', 'media f0 ']);
  });
});

describe('a file in chunks (T6)', () => {
  const orders = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
  ];

  for (const order of orders) {
    it(`is put together in the order ${order.join(', ')}`, (t) => {
      const { gateway, news } = connected(t);
      const pieces = ['bG9n', 'IGVu', 'dHJ5'];
      for (const part of order) {
        assert.deepEqual(news(), []);
        const first = part === 0 ? { caption: "today's", reply_to: 'm1' } : {};
        gateway.sends(chunk('f1', part, 3, pieces[part]!, first), chunk('f1', part, 3, 'AAAA'));
      }
      assert.deepEqual(news(), [
        [
          'media',
          {
            id: 'f1',
            kind: 'document',
            mime: 'text/plain',
            filename: 'log.txt',
            caption: "today's",
            part: 2,
            parts: 3,
            final: true,
            size: 6,
            data: 'bG9nIGVudHJ5',
            reply_to: 'm1',
          },
        ],
      ]);
    });
  }

  it('is put together from chunks of any size, padded in the middle', (t) => {
    const { gateway, news } = connected(t);
    gateway.sends(chunk('f1', 0, 3, 'bA=='), chunk('f1', 1, 3, 'b2c='), chunk('f1', 2, 3, 'IQ=='));
    assert.deepEqual(short(news()), ['media f1 bG9nIQ==']);
  });

  it('may be interleaved with another one', (t) => {
    const { gateway, news } = connected(t);
    gateway.sends(
      chunk('f1', 0, 2, 'AAAA'),
      chunk('f2', 0, 2, 'BBBB'),
      chunk('f1', 1, 2, 'CCCC'),
      chunk('f2', 1, 2, 'DDDD'),
    );
    assert.deepEqual(short(news()), ['media f1 AAAACCCC', 'media f2 BBBBDDDD']);
  });

  it('is told at once when it is a link', (t) => {
    const { gateway, news } = connected(t);
    const url = 'https://files.example.com/day.mp4';
    const { data: _, ...link } = chunk('f1', 0, 1, '', { url });
    gateway.sends(link);
    const [[name, media]] = news() as [[string, Frame]];
    assert.equal(name, 'media');
    assert.equal(media['url'], url);
    assert.equal('data' in media, false);
  });

  it('ignores a part that it cannot have, and begins anew with another number of parts', (t) => {
    const { gateway, news } = connected(t);
    gateway.sends(
      ...[-1, 2, 0.5].map((part) => chunk('f1', part, 2, 'AAAA')),
      chunk('f1', 0, 3, 'BBBB'),
      chunk('f1', 0, 2, 'CCCC'),
      chunk('f1', 1, 2, 'DDDD'),
    );
    assert.deepEqual(short(news()), ['media f1 CCCCDDDD']);
  });

  it('is dropped with the connection, and comes again from the first chunk', (t) => {
    const set = connected(t);
    set.gateway.sends(chunk('f1', 0, 2, 'AAAA'));
    reconnect(t, set);
    set.gateway.sends(chunk('f1', 1, 2, 'BBBB'));
    assert.deepEqual(set.news(), []);
    set.gateway.sends(chunk('f1', 0, 2, 'AAAA'));
    assert.deepEqual(short(set.news()), ['media f1 AAAABBBB']);
  });

  it('is one of at most 16: beyond that the oldest is dropped', (t) => {
    const { gateway, news } = connected(t);
    for (let n = 0; n < 17; n++) gateway.sends(chunk(`f${n}`, 0, 2, 'AAAA'));
    for (let n = 1; n < 17; n++) gateway.sends(chunk(`f${n}`, 1, 2, 'BBBB'));
    assert.equal(news().length, 16);
    gateway.sends(chunk('f0', 1, 2, 'BBBB'));
    assert.deepEqual(news(), []);
  });

  it('is one of at most 32 MiB together', (t) => {
    const { gateway, news } = connected(t);
    const seven = 'AAAA'.repeat((7 * 1024 * 1024) / 3 + 1);
    for (let n = 0; n < 5; n++) gateway.sends(chunk(`f${n}`, 0, 2, seven));
    for (let n = 4; n >= 0; n--) gateway.sends(chunk(`f${n}`, 1, 2, ''));
    assert.deepEqual(
      news().map(([, media]) => (media as { id: string }).id),
      ['f4', 'f3', 'f2', 'f1'],
    );
  });

  it('of 2048 chunks is put together in no time', (t) => {
    const { gateway, news } = connected(t);
    const piece = `${'AAAA'.repeat(1365)}AA==`; // 4096 bytes: every piece is padded
    const began = performance.now();
    for (let part = 0; part < 2048; part++) gateway.sends(chunk('f1', part, 2048, piece));
    assert.ok(performance.now() - began < 2000);
    const [[, media]] = news() as [[string, { data: string }]];
    assert.equal(media.data.length, Math.ceil((2048 * 4096) / 3) * 4);
  });
});

describe('ready', () => {
  it('passes on capabilities that this client does not know', (t) => {
    const { client, gateway, news } = stage(t);
    client.connect();
    gateway.opens();
    gateway.sends(ready({ max_text_chars: 12_000, holograms: ['cat'] }));
    const [, , [, payload]] = news() as [unknown, unknown, [string, { capabilities: Frame }]];
    assert.deepEqual(payload.capabilities, {
      text: true,
      voice: true,
      typing: true,
      max_text_chars: 12_000,
      holograms: ['cat'],
    });
  });
});
