/** The page: puts its parts together. What each does stands with it. */

import { HermesClient } from './client.ts';
import { loadConfig, type Config } from './config.ts';
import { Conversation, textOf, type Entry } from './conversation.ts';
import { deviceId, keepDeviceId, takeLink, type Link } from './identity.ts';
import { notify, offerNotifications } from './notifications.ts';
import { Session, type Status } from './session.ts';
import { Traffic } from './traffic.ts';
import { Announcer } from './view/announcer.ts';
import { Composer } from './view/composer.ts';
import { find } from './view/dom.ts';
import { LogView } from './view/log.ts';
import { StatusView } from './view/status.ts';
import { Voice } from './view/voice.ts';
import { question } from './command.ts';

// First of all: the token leaves the address bar.
const link = takeLink(location, history);

const storage = (): Storage => localStorage;
let session: Session | null = null;
/** Counts who came and went, so that an answer for one who has gone is not taken. */
let comings = 0;

const announcer = new Announcer(find('announcements', HTMLElement), find('urgent', HTMLElement));

const log = new LogView(
  {
    log: find('log', HTMLElement),
    entries: find('entries', HTMLElement),
    empty: find('empty', HTMLElement),
    newest: find('newest', HTMLButtonElement),
    newestText: find('newest-text', HTMLElement),
  },
  {
    answer: (card, optionId, text) => session?.answer(card, optionId, text),
    connected: () => session?.status.connection === 'connected',
    maxTextChars: () => session?.maxTextChars ?? 0,
    announce: (text) => announcer.say(text),
    enlarge,
  },
);
const conversation = new Conversation(log);
const traffic = new Traffic((id, arrived) => conversation.arriving(id, arrived));
globalThis.WebSocket = traffic.watch(WebSocket);

const status = new StatusView(
  {
    avatar: find('avatar', HTMLIFrameElement),
    presence: find('presence', HTMLElement),
    connection: find('connection', HTMLElement),
    address: find('address', HTMLElement),
    working: find('working', HTMLElement),
    banner: find('banner', HTMLElement),
    bannerTitle: find('banner-title', HTMLElement),
    bannerAdvice: find('banner-advice', HTMLElement),
    bannerAction: find('banner-action', HTMLButtonElement),
  },
  { connect: () => session?.connect(), signIn: () => askForToken('') },
);

const composer = new Composer(
  {
    form: find('composer', HTMLFormElement),
    text: find('text', HTMLTextAreaElement),
    problem: find('composer-problem', HTMLElement),
    attachments: find('attachments', HTMLUListElement),
    attach: find('attach', HTMLButtonElement),
    file: find('file', HTMLInputElement),
    drop: find('drop', HTMLElement),
  },
  {
    say: (text) => session?.say(text),
    share: (file, caption) => session?.share(file, caption),
    typing: () => session?.typing(),
    maxFileBytes: () => session?.maxFileBytes ?? 0,
    maxTextChars: () => session?.maxTextChars ?? 0,
    active: () => session !== null,
  },
);

const voice = new Voice(
  {
    record: find('record', HTMLButtonElement),
    writing: find('writing', HTMLElement),
    panel: find('recording', HTMLElement),
    time: find('recording-time', HTMLElement),
    cancel: find('recording-cancel', HTMLButtonElement),
    send: find('recording-send', HTMLButtonElement),
  },
  {
    recorded: (file) => session?.speak(file),
    complain: (problem) => composer.complain(problem),
    maxFileBytes: () => session?.maxFileBytes ?? 0,
  },
);

const signIn = {
  page: find('sign-in', HTMLElement),
  form: find('sign-in-form', HTMLFormElement),
  problem: find('sign-in-problem', HTMLElement),
  token: find('token', HTMLInputElement),
  device: find('device', HTMLInputElement),
};
const chat = find('console', HTMLElement);

signIn.form.addEventListener('submit', (event) => {
  event.preventDefault();
  void begin({ token: signIn.token.value.trim(), device: signIn.device.value.trim() });
});
find('sign-out', HTMLButtonElement).addEventListener('click', () => askForToken(''));
find('stop', HTMLButtonElement).addEventListener('click', () => session?.stop());
find('try-help', HTMLButtonElement).addEventListener('click', () => {
  session?.say('/help');
  composer.focus();
});
window.addEventListener('online', () => {
  if (session?.status.connection === 'reconnecting') session.connect();
});
window.addEventListener('hashchange', () => {
  const opened = takeLink(location, history);
  if (opened !== null) void begin(opened);
});
offerNotifications(find('notify', HTMLButtonElement));

if (link === null) askForToken('');
else void begin(link);

/** Ends what is there, and asks who it shall be. */
function askForToken(problem: string): void {
  endSession();
  signIn.device.value = deviceId(storage);
  signIn.problem.textContent = problem;
  signIn.problem.hidden = problem === '';
  chat.hidden = true;
  signIn.page.hidden = false;
  signIn.token.focus();
}

/** Connects as the device that the link or the form names. */
async function begin(who: Link): Promise<void> {
  endSession();
  const mine = comings;
  const id = who.device === '' ? deviceId(storage) : who.device;
  keepDeviceId(storage, id);
  let config: Config;
  try {
    config = await loadConfig();
  } catch {
    if (mine !== comings) return;
    askForToken('This page could not learn where the server is. Is it running? Try again.');
    signIn.token.value = who.token;
    return;
  }
  if (mine !== comings) return;
  signIn.token.value = '';
  signIn.page.hidden = true;
  chat.hidden = false;
  const device = { id, name: 'Web console', platform: 'web', appVersion: config.version };
  const options = { url: config.url, token: who.token, device };
  const events = { status: show, heard };
  session = new Session((all) => new HermesClient(all), options, conversation, traffic, events);
  show(session.status);
  try {
    session.connect();
  } catch {
    // Browsers refuse some addresses outright: no WebSocket, or an open one from an https page.
    askForToken(`The server’s address, ${config.url}, cannot be used from this page.`);
    return;
  }
  composer.focus();
}

function endSession(): void {
  comings += 1;
  void voice.cancel();
  session?.end();
  session = null;
  composer.clear();
  conversation.clear();
}

function show(current: Status): void {
  const { connection, problem, replaced } = current;
  if (connection === 'failed' && problem !== null && !replaced && isEmpty()) {
    // Nothing has been said that would be lost: ask again at once, and say why.
    askForToken(`${problem.title}. ${problem.advice}`);
    return;
  }
  status.show(current);
  log.refreshCards();
}

function isEmpty(): boolean {
  return conversation.entries.length === 0;
}

/** Tells those who do not see the log: a screen reader's user, and whoever looks elsewhere. */
function heard(entry: Entry): void {
  switch (entry.kind) {
    case 'reply':
      announcer.say(`Hermes: ${textOf(entry)}`);
      notify(textOf(entry));
      break;
    case 'received': {
      const file = `Hermes sent a file: ${entry.file?.name ?? ''}`;
      announcer.say(file);
      notify(file);
      break;
    }
    case 'card': {
      const { command, options } = entry.prompt;
      const choices = options.map((option) => option.label).join(', ');
      const text = `${question(entry.prompt)} ${command ?? ''}`;
      announcer.interrupt(`Hermes asks: ${text} Answers: ${choices}.`);
      notify(`Hermes asks: ${text}`);
      break;
    }
    default:
  }
}

function enlarge(url: string, alt: string): void {
  const image = find('enlarged-image', HTMLImageElement);
  image.src = url;
  image.alt = alt;
  find('enlarged', HTMLDialogElement).showModal();
}
