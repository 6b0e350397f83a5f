/** Which file is what: kinds for the way out, types that are safe to show on the way in. */

import { size } from './words.ts';

/** What one file may have where the server does not say (MAX_MEDIA_BYTES). */
export const MAX_FILE_BYTES = 8 * 1024 * 1024;

export type OutgoingKind = 'image' | 'video' | 'audio' | 'document';

/** How a file can be shown: everything that is not safe or not known is `none`, a download. */
export type Preview = 'image' | 'video' | 'audio' | 'none';

/**
 * The types that the page shows itself. SVG and HTML are not among them: opened from a blob of this
 * page they would be documents of its origin.
 */
const PREVIEWS: Readonly<Record<string, Preview>> = {
  'image/png': 'image',
  'image/jpeg': 'image',
  'image/gif': 'image',
  'image/webp': 'image',
  'image/avif': 'image',
  'image/bmp': 'image',
  'video/mp4': 'video',
  'video/webm': 'video',
  'video/ogg': 'video',
  'video/quicktime': 'video',
  'audio/mpeg': 'audio',
  'audio/mp4': 'audio',
  'audio/aac': 'audio',
  'audio/ogg': 'audio',
  'audio/opus': 'audio',
  'audio/webm': 'audio',
  'audio/flac': 'audio',
  'audio/wav': 'audio',
  'audio/x-wav': 'audio',
};

function essence(mime: string): string {
  return (mime.split(';')[0] ?? '').trim().toLowerCase();
}

export function preview(mime: string): Preview {
  const type = essence(mime);
  return Object.hasOwn(PREVIEWS, type) ? (PREVIEWS[type] ?? 'none') : 'none';
}

/** The type a received file may have in this page: its own where it is shown, else plain bytes. */
export function safeType(mime: string): string {
  return preview(mime) === 'none' ? 'application/octet-stream' : essence(mime);
}

/** What a file is to the agent; a document where the agent does not take the better kind. */
export function kindOf(mime: string, accepted: readonly string[]): OutgoingKind {
  const family = essence(mime).split('/')[0];
  if (family !== 'image' && family !== 'video' && family !== 'audio') return 'document';
  return accepted.includes(family) ? family : 'document';
}

/** Why a file cannot be sent, in words, or null. */
export function refusal(file: { name: string; size: number }, limit: number): string | null {
  if (file.size === 0) return `“${file.name}” is empty, or it is a folder.`;
  if (file.size > limit) {
    return `“${file.name}” has ${size(file.size)}. The most that can be sent is ${size(limit)}.`;
  }
  return null;
}
