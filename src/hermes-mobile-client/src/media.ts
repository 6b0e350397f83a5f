import { base64ToBytes, bytesToBase64 } from './base64.js';
import { MEDIA_CHUNK_BYTES, type MediaSendOptions, type MediaSource } from './types.js';
import type { AppFrame } from './frames.js';

const KINDS = ['image', 'video', 'document', 'audio'];

const MIME_BY_EXTENSION = new Map([
  ['aac', 'audio/aac'],
  ['avif', 'image/avif'],
  ['bmp', 'image/bmp'],
  ['csv', 'text/csv'],
  ['doc', 'application/msword'],
  ['docx', 'application/vnd.openxmlformats-officedocument.wordprocessingml.document'],
  ['flac', 'audio/flac'],
  ['gif', 'image/gif'],
  ['gz', 'application/gzip'],
  ['heic', 'image/heic'],
  ['htm', 'text/html'],
  ['html', 'text/html'],
  ['jpeg', 'image/jpeg'],
  ['jpg', 'image/jpeg'],
  ['json', 'application/json'],
  ['m4a', 'audio/mp4'],
  ['md', 'text/markdown'],
  ['mkv', 'video/x-matroska'],
  ['mov', 'video/quicktime'],
  ['mp3', 'audio/mpeg'],
  ['mp4', 'video/mp4'],
  ['oga', 'audio/ogg'],
  ['ogg', 'audio/ogg'],
  ['ogv', 'video/ogg'],
  ['opus', 'audio/ogg'],
  ['pdf', 'application/pdf'],
  ['png', 'image/png'],
  ['ppt', 'application/vnd.ms-powerpoint'],
  ['pptx', 'application/vnd.openxmlformats-officedocument.presentationml.presentation'],
  ['svg', 'image/svg+xml'],
  ['txt', 'text/plain'],
  ['wav', 'audio/wav'],
  ['webm', 'video/webm'],
  ['webp', 'image/webp'],
  ['xls', 'application/vnd.ms-excel'],
  ['xlsx', 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet'],
  ['xml', 'application/xml'],
  ['zip', 'application/zip'],
]);

/** The `media` frames of a file; throws for an unknown kind, an empty or unreadable file. */
export function mediaFrames(
  id: string,
  kind: string,
  source: MediaSource,
  options: MediaSendOptions,
): AppFrame[] {
  const known = kind.toLowerCase();
  if (!KINDS.includes(known)) throw new Error(`kind: one of ${KINDS.join(', ')}`);

  const chunkBytes = options.chunkBytes ?? MEDIA_CHUNK_BYTES;
  if (!(Number.isInteger(chunkBytes) && chunkBytes > 0)) {
    throw new RangeError('chunkBytes: a positive integer');
  }

  const bytes = bytesOf(source);
  if (bytes.length === 0) throw new Error('source: an empty file');

  const filename = options.filename || nameOf(source);
  const parts = Math.ceil(bytes.length / chunkBytes);
  return Array.from({ length: parts }, (_, part) => ({
    t: 'media',
    id,
    kind: known,
    mime: options.mime || guessMime(filename),
    data: bytesToBase64(bytes.subarray(part * chunkBytes, (part + 1) * chunkBytes)),
    part,
    parts,
    filename: filename || undefined,
    caption: options.caption || undefined,
  }));
}

function bytesOf(source: MediaSource): Uint8Array {
  if (typeof source === 'string') return base64ToBytes(source);
  // Not `instanceof`: the bytes may come from another realm, such as an Electron preload script.
  if (ArrayBuffer.isView(source)) return source;
  return readFile(source.path);
}

function nameOf(source: MediaSource): string {
  const path = typeof source === 'object' && 'path' in source ? source.path : '';
  return path.slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1);
}

/** The MIME type that a file's name suggests, `application/octet-stream` where it suggests none. */
export function guessMime(filename: string): string {
  const extension = /\.(\w+)$/.exec(filename)?.[1]?.toLowerCase() ?? '';
  return MIME_BY_EXTENSION.get(extension) ?? 'application/octet-stream';
}

interface FileSystem {
  readFileSync(path: string): Uint8Array;
}

interface Runtime {
  process?: { getBuiltinModule?(name: 'fs'): FileSystem | undefined };
}

/** Read a file where there are files; no import, so that bundlers for other platforms see none. */
function readFile(path: string): Uint8Array {
  const fs = (globalThis as Runtime).process?.getBuiltinModule?.('fs');
  if (!fs) throw new Error('source: a path can be read in Node only');
  return fs.readFileSync(path);
}
