// Lanes as rows of pixels. Every row is computed event by event into one line of an image, and that line is stretched to
// the height of its lane: the time it takes depends on the events in sight, and hardly on what they look like.
import { firstAbove } from "./events";
import type { Piece } from "./tiles";

/** How each label is drawn: its color as 0xBBGGRR, and whether it is one of those looked for. */
export interface Look { colors: Uint32Array; wanted: Uint8Array | null; layer: number | null; step: number | null; faded: number }

/** A name that has room. */
export interface Caption { x: number; width: number; label: number; ns: number; row: number; merged: number; on: boolean }

/** Pixels from which on an event has a name, and a gap to the next one. */
const [NAMED, GAPPED] = [26, 4];
/** A pixel in which anything ran is never fainter than this. */
const LEAST = 0.28;

export class Raster {
  private image: ImageData;
  private pixels: Uint32Array;
  private cover: Float32Array;
  private best: Float32Array;
  private run: Float32Array;
  private color: Uint32Array;
  private last: Uint32Array;
  readonly canvas: HTMLCanvasElement;
  private context: CanvasRenderingContext2D;

  constructor(readonly width: number, readonly rows: number) {
    this.canvas = document.createElement("canvas");
    this.canvas.width = width;
    this.canvas.height = rows;
    this.context = this.canvas.getContext("2d") as CanvasRenderingContext2D;
    this.image = this.context.createImageData(width, rows);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.cover = new Float32Array(width);
    this.best = new Float32Array(width);
    this.run = new Float32Array(width);
    this.color = new Uint32Array(width);
    this.last = new Uint32Array(width);
  }

  /** Draw one lane; `from` is the time at the left edge, `scale` the pixels per nanosecond. */
  draw(row: number, pieces: Piece[], from: number, scale: number, look: Look, captions: Caption[]): void {
    this.cover.fill(0);
    this.best.fill(0);
    this.run.fill(0);
    for (const piece of pieces) this.piece(row, piece, from, scale, look, captions);
    const first = row * this.width;
    for (let at = 0; at < this.width; at += 1) {
      const cover = this.cover[at] as number;
      this.pixels[first + at] = cover === 0 ? 0 : ((this.color[at] as number) | ((255 * Math.max(LEAST, Math.min(1, cover))) << 24)) >>> 0;
    }
  }

  private piece(row: number, { events, from: low, to: high, leftmost }: Piece, from: number, scale: number, look: Look, captions: Caption[]): void {
    const { start, dur, busy, label, layer, step, count, reach } = events;
    const narrowed = look.wanted !== null || look.layer !== null || look.step !== null;
    const limit = this.width - 1;
    for (let at = firstAbove(reach, low); at < events.rows; at += 1) {
      const begin = start[at] as number;
      if (begin >= high) break;
      const length = dur[at] as number;
      if (begin + length < low) continue;
      const name = label[at] as number;
      const on = !narrowed || ((look.wanted === null || look.wanted[name] === 1) && (look.layer === null || layer[at] === look.layer + 1) && (look.step === null || step[at] === look.step + 1));
      const color = on ? (look.colors[name] as number) : look.faded;
      const left = (Math.max(begin, low) - from) * scale;
      const right = (Math.min(begin + length, high) - from) * scale;
      const share = length > 0 ? Math.min(1, (busy[at] as number) / length) : 1;
      const [first, end] = [Math.max(0, Math.floor(left)), Math.min(limit, Math.floor(right))];
      if (first > limit || end < 0) continue;
      if (first === end) this.add(first, Math.max(0.02, (right - left) * share), color);
      else {
        this.add(first, (first + 1 - Math.max(0, left)) * share, color);
        for (let pixel = first + 1; pixel < end; pixel += 1) this.add(pixel, share, color);
        // A gap separates neighbors of one color.
        this.add(end, right > limit ? share : (right - end) * share * (right - left >= GAPPED ? 0.4 : 1), color);
        if (right - left >= NAMED && (leftmost || begin >= low)) captions.push({ x: left, width: right - left, label: name, ns: length, row, merged: count[at] as number, on });
      }
    }
  }

  /** Part of a pixel; the color that has most of it is shown. */
  private add(pixel: number, part: number, color: number): void {
    if (part <= 0) return;
    this.cover[pixel] = (this.cover[pixel] as number) + part;
    const run = this.last[pixel] === color && (this.run[pixel] as number) > 0 ? (this.run[pixel] as number) + part : part;
    this.run[pixel] = run;
    this.last[pixel] = color;
    if (run >= (this.best[pixel] as number)) {
      this.best[pixel] = run;
      this.color[pixel] = color;
    }
  }

  /** The finished rows as a canvas to be stretched. */
  finish(): HTMLCanvasElement {
    this.context.putImageData(this.image, 0, 0);
    return this.canvas;
  }
}

/** A color as the bytes of an image, least byte red, without alpha. */
export const bytesOf = (color: string): number => parseInt(color.slice(1, 3), 16) | (parseInt(color.slice(3, 5), 16) << 8) | (parseInt(color.slice(5, 7), 16) << 16);
