// The picture: an overview and a ruler above, lanes below. It knows what is in sight, and draws once per frame at most.
import { inkOn } from "../colors";
import { number, shorten, time } from "../format";
import type { EventTimeline, Label } from "../types";
import { eventAt } from "./events";
import { FONT, inkOf, type Ink } from "./ink";
import { bytesOf, Raster, type Caption, type Look } from "./raster";
import { colorOf, rowsOf, TITLE, type Row } from "./rows";
import { marks } from "./ruler";
import { Tiles } from "./tiles";

export const OVERVIEW = 34;
const RULER = 24;
export const HEAD = OVERVIEW + RULER;
/** Names drawn in one frame; more cannot be read, and each takes time. */
const MOST_NAMES = 260;
const SMALL = `11px ${FONT}`;
/** Nanoseconds that fill the window at most closely. */
const CLOSEST = 40;

export interface Hit { lane: number; label: number; start: number; dur: number; busy: number; count: number; layer: number | null; step: number | null; wait: number | null }
export interface Narrowed { labels: Uint8Array | null; layer: number | null; step: number | null }

export class Drawing {
  readonly tiles: Tiles;
  from: number;
  to: number;
  rows: Row[] = [];
  range: [number, number] | null = null;
  chosen: Hit | null = null;
  cursor: number | null = null;
  narrowed: Narrowed = { labels: null, layer: null, step: null };
  /** Times between frames and of drawing, for measurements. */
  onFrame: ((ms: number) => void) | null = null;
  private stacks = false;
  private scheduled = 0;
  private raster: Raster | null = null;
  private overview: HTMLCanvasElement | null = null;
  private colors: Uint32Array[] = [];
  private inks: string[][] = [];
  private widths = new Map<number, number>();
  private ink: Ink;

  constructor(readonly head: HTMLCanvasElement, readonly body: HTMLCanvasElement, readonly scroller: HTMLElement, readonly timeline: EventTimeline, address: string | null, private drawn: () => void) {
    [this.from, this.to] = timeline.focus;
    this.ink = inkOf(body);
    this.setColors();
    this.tiles = new Tiles(timeline, address, () => {
      this.overview = null;
      this.invalidate();
    });
    this.setStacks(false);
  }

  private setColors(): void {
    const lists = new Map<string, [Uint32Array, string[]]>();
    for (const lane of this.timeline.lanes) {
      let found = lists.get(lane.kind);
      if (!found) {
        const colors = this.timeline.labels.map((label) => colorOf(lane.kind, label));
        found = [Uint32Array.from(colors, bytesOf), colors.map(inkOn)];
        lists.set(lane.kind, found);
      }
      this.colors.push(found[0]);
      this.inks.push(found[1]);
    }
  }

  setStacks(shown: boolean): void {
    this.stacks = shown;
    this.rows = rowsOf(this.timeline, shown, !this.gutter);
    this.invalidate();
  }

  get height(): number {
    const last = this.rows[this.rows.length - 1];
    return last ? last.y + last.height + 6 : 0;
  }

  get gutter(): number {
    return this.body.clientWidth > 700 ? 150 : 0;
  }

  get plot(): number {
    return Math.max(50, this.body.clientWidth - this.gutter);
  }

  /** Width or theme have changed. */
  refresh(): void {
    this.rows = rowsOf(this.timeline, this.stacks, !this.gutter);
    this.ink = inkOf(this.body);
    this.overview = null;
    this.invalidate();
  }

  timeAt(x: number): number {
    return this.from + ((x - this.gutter) / this.plot) * (this.to - this.from);
  }

  xOf(ns: number): number {
    return this.gutter + ((ns - this.from) / (this.to - this.from)) * this.plot;
  }

  show(from: number, to: number): void {
    const span = this.timeline.span_ns;
    const room = Math.min(span * 1.04, Math.max(CLOSEST, to - from));
    const middle = (from + to) / 2;
    const least = -0.02 * span;
    const start = Math.max(least, Math.min(middle - room / 2, 1.02 * span - room));
    if (start === this.from && start + room === this.to) return;
    [this.from, this.to] = [start, start + room];
    this.invalidate();
  }

  zoom(factor: number, x: number): void {
    const fixed = this.timeAt(x);
    this.show(fixed - (fixed - this.from) * factor, fixed + (this.to - fixed) * factor);
  }

  pan(pixels: number): void {
    const moved = (pixels / this.plot) * (this.to - this.from);
    this.show(this.from + moved, this.to + moved);
  }

  invalidate(): void {
    if (!this.scheduled) this.scheduled = requestAnimationFrame(() => this.draw());
  }

  stop(): void {
    cancelAnimationFrame(this.scheduled);
  }

  /** The pixel grid of a canvas, as sharp as the screen. */
  private prepare(canvas: HTMLCanvasElement, height: number): CanvasRenderingContext2D {
    const ratio = window.devicePixelRatio || 1;
    const [wide, high] = [Math.round(canvas.clientWidth * ratio), Math.round(height * ratio)];
    if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
    const context = canvas.getContext("2d") as CanvasRenderingContext2D;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, canvas.clientWidth, height);
    return context;
  }

  draw(): void {
    this.scheduled = 0;
    const began = performance.now();
    const level = this.tiles.levelFor((this.to - this.from) / (this.plot * (window.devicePixelRatio || 1)));
    this.tiles.want(level, this.from, this.to);
    this.drawBody(level);
    this.drawHead();
    this.drawn();
    this.onFrame?.(performance.now() - began);
  }

  private drawBody(level: number): void {
    const height = this.body.clientHeight;
    const context = this.prepare(this.body, height);
    const ratio = window.devicePixelRatio || 1;
    const top = this.scroller.scrollTop;
    const seen = this.rows.filter((row) => row.y + row.height > top && row.y < top + height);
    const wide = Math.round(this.plot * ratio);
    if (!this.raster || this.raster.width !== wide || this.raster.rows < seen.length) this.raster = new Raster(wide, Math.max(seen.length, this.rows.length));
    const captions: Caption[] = [];
    const scale = wide / (this.to - this.from);
    seen.forEach((row, at) => {
      if (row.lane === null) return;
      const pieces = this.tiles.pieces(row.lane, level, this.from, this.to);
      this.raster?.draw(at, pieces, this.from, scale, this.look(row.lane), captions);
    });
    const image = this.raster.finish();
    context.imageSmoothingEnabled = false;
    seen.forEach((row, at) => {
      context.fillStyle = this.ink.page;
      context.fillRect(this.gutter, row.y - top, this.plot, row.height);
      if (row.lane !== null) context.drawImage(image, 0, at, wide, 1, this.gutter, row.y - top, this.plot, row.height);
      else this.drawSensor(context, row, top);
    });
    this.drawNames(context, captions, seen, top, ratio);
    this.drawMarks(context, height, top);
    this.drawTitles(context, seen, top, height);
  }

  private look(lane: number): Look {
    const kind = this.timeline.lanes[lane]?.kind;
    const { labels, layer, step } = this.narrowed;
    const track = kind === "idle" || kind === "call" || kind === "stack";
    // Layers are not known of what is not on the GPU, nor of steps.
    const ofLayer = kind === "gpu" || kind === "layer" ? layer : null;
    const ofStep = track ? null : step;
    const wanted = kind === "step" || kind === "pass" || kind === "layer" || kind === "idle" ? null : labels;
    return { colors: this.colors[lane] as Uint32Array, wanted, layer: ofLayer, step: ofStep, faded: bytesOf(this.ink.line) };
  }

  private drawSensor(context: CanvasRenderingContext2D, row: Row, top: number): void {
    const sensor = row.sensor;
    if (!sensor) return;
    const y = (value: number) => row.y - top + row.height - 3 - ((value - sensor.low) / (sensor.high - sensor.low || 1)) * (row.height - 6);
    context.save();
    context.beginPath();
    context.rect(this.gutter, row.y - top, this.plot, row.height);
    context.clip();
    context.beginPath();
    sensor.times_ns.forEach((at, index) => {
      const [x, high] = [this.xOf(at), y(sensor.values[index] as number)];
      if (index) context.lineTo(x, high);
      else context.moveTo(x, high);
    });
    context.strokeStyle = this.ink.accent;
    context.lineWidth = 1.25;
    context.stroke();
    context.font = `10px ${FONT}`;
    context.fillStyle = this.ink.faint;
    context.textAlign = "right";
    context.fillText(number(sensor.high, 4), this.gutter + this.plot - 3, row.y - top + 10);
    context.fillText(number(sensor.low, 4), this.gutter + this.plot - 3, row.y - top + row.height - 3);
    context.textAlign = "left";
    context.restore();
  }

  private drawNames(context: CanvasRenderingContext2D, captions: Caption[], seen: Row[], top: number, ratio: number): void {
    const chosen = captions.length > MOST_NAMES ? captions.sort((a, b) => b.width - a.width).slice(0, MOST_NAMES) : captions;
    context.font = SMALL;
    context.textBaseline = "middle";
    for (const one of chosen) {
      const row = seen[one.row];
      const label = this.timeline.labels[one.label];
      if (!row || row.lane === null || !label || row.height < 11) continue;
      const left = Math.max(one.x / ratio, 0);
      const room = Math.min((one.x + one.width) / ratio, this.plot) - left - 6;
      const text = this.fitted(context, one, label, room);
      if (!text) continue;
      context.fillStyle = one.on ? (this.inks[row.lane]?.[one.label] as string) : this.ink.faint;
      context.fillText(text, this.gutter + left + 3, row.y - top + row.height / 2 + 0.5);
    }
    context.textBaseline = "alphabetic";
  }

  private fitted(context: CanvasRenderingContext2D, one: Caption, label: Label, room: number): string {
    let width = this.widths.get(one.label);
    if (width === undefined) {
      width = context.measureText(label.name).width;
      this.widths.set(one.label, width);
    }
    const name = one.merged > 1 ? `${number(one.merged)} events, most time: ${label.name}` : label.name;
    if (one.merged > 1) width += 140;
    if (width + 62 <= room) return `${name}  ${time(one.ns)}`;
    if (width <= room) return name;
    const letters = Math.floor((0.92 * name.length * room) / width) - 1;
    return letters < 3 ? "" : letters < 14 ? `${name.slice(0, letters)}…` : shorten(name, letters);
  }

  /** The chosen event, the range, and where the pointer is. */
  private drawMarks(context: CanvasRenderingContext2D, height: number, top: number): void {
    context.save();
    context.beginPath();
    context.rect(this.gutter, 0, this.plot, height);
    context.clip();
    if (this.range) {
      const [left, right] = this.range.map((ns) => this.xOf(ns)) as [number, number];
      context.globalAlpha = 0.55;
      context.fillStyle = this.ink.surface;
      context.fillRect(this.gutter, 0, Math.max(0, left - this.gutter), height);
      context.fillRect(right, 0, Math.max(0, this.gutter + this.plot - right), height);
      context.globalAlpha = 1;
      context.fillStyle = this.ink.accent;
      for (const x of [left, right]) context.fillRect(x - 0.5, 0, 1.5, height);
    }
    const row = this.chosen && this.rows.find((one) => one.lane === this.chosen?.lane);
    if (this.chosen && row) {
      const [left, right] = [this.xOf(this.chosen.start), this.xOf(this.chosen.start + this.chosen.dur)];
      context.strokeStyle = this.ink.text;
      context.lineWidth = 2;
      context.strokeRect(left, row.y - top + 1, Math.max(2, right - left), row.height - 2);
    }
    if (this.cursor !== null) {
      context.fillStyle = this.ink.faint;
      context.globalAlpha = 0.6;
      context.fillRect(this.xOf(this.cursor), 0, 1, height);
      context.globalAlpha = 1;
    }
    context.restore();
  }

  private drawTitles(context: CanvasRenderingContext2D, seen: Row[], top: number, height: number): void {
    context.font = SMALL;
    context.textBaseline = "middle";
    if (this.gutter) context.clearRect(0, 0, this.gutter, height);
    for (const row of seen) {
      if (!row.title) continue;
      const text = shorten(row.title, this.gutter ? 24 : 48);
      if (this.gutter) {
        context.fillStyle = this.ink.text;
        context.fillText(text, 2, row.y - top + row.height / 2);
      } else {
        context.fillStyle = this.ink.faint;
        context.fillText(text, 2, row.y - top - TITLE / 2);
      }
    }
    context.textBaseline = "alphabetic";
  }

  private drawHead(): void {
    const context = this.prepare(this.head, HEAD);
    this.overview ??= this.makeOverview();
    context.fillStyle = this.ink.page;
    context.fillRect(this.gutter, 0, this.plot, OVERVIEW - 4);
    context.imageSmoothingEnabled = false;
    if (this.overview) context.drawImage(this.overview, this.gutter, 0, this.plot, OVERVIEW - 4);
    const span = this.timeline.span_ns;
    const place = (ns: number) => this.gutter + (Math.max(0, Math.min(span, ns)) / span) * this.plot;
    const [left, right] = [place(this.from), place(this.to)];
    context.globalAlpha = 0.6;
    context.fillStyle = this.ink.surface;
    context.fillRect(this.gutter, 0, left - this.gutter, OVERVIEW - 4);
    context.fillRect(right, 0, this.gutter + this.plot - right, OVERVIEW - 4);
    context.globalAlpha = 1;
    context.strokeStyle = this.ink.accent;
    context.lineWidth = 1.5;
    context.strokeRect(left, 0.75, Math.max(3, right - left), OVERVIEW - 5.5);
    this.drawRuler(context);
  }

  private drawRuler(context: CanvasRenderingContext2D): void {
    const { marks: found, base } = marks(this.from, this.to, this.plot);
    context.font = SMALL;
    context.fillStyle = this.ink.faint;
    if (this.gutter) context.fillText(base ?? "time", 2, HEAD - 8);
    for (const mark of found) {
      const x = this.xOf(mark.at);
      if (x < this.gutter) continue;
      context.fillRect(x, HEAD - 5, 1, 5);
      if (x + context.measureText(mark.text).width < this.gutter + this.plot) context.fillText(mark.text, x + 3, HEAD - 8);
    }
    if (this.range) {
      const [left, right] = this.range.map((ns) => Math.max(this.gutter, Math.min(this.gutter + this.plot, this.xOf(ns)))) as [number, number];
      context.fillStyle = this.ink.accent;
      context.fillRect(left, HEAD - 3, Math.max(1, right - left), 3);
    }
  }

  /** The whole profile: idle time above, what ran below, of the first GPU. */
  private makeOverview(): HTMLCanvasElement | null {
    if (!this.tiles.base) return null;
    const wide = Math.round(this.plot * (window.devicePixelRatio || 1));
    const first = this.timeline.lanes.find((lane) => lane.kind === "gpu");
    const lanes = this.timeline.lanes.flatMap((lane, at) => ((lane.kind === "idle" || lane.kind === "gpu") && lane.device === first?.device && lane.rank === first?.rank && !lane.depth ? [at] : [])).slice(0, 3);
    if (!lanes.length) return null;
    const raster = new Raster(wide, lanes.length);
    const span = this.timeline.span_ns;
    lanes.forEach((lane, row) => {
      const events = this.tiles.base?.lanes.get(lane);
      if (events) raster.draw(row, [{ events, from: 0, to: span, leftmost: true }], 0, wide / span, { ...this.look(lane), wanted: null, layer: null, step: null }, []);
    });
    return raster.finish();
  }

  /** What is at a point of the body, or within three pixels of it. */
  hit(x: number, y: number): Hit | null {
    const at = y + this.scroller.scrollTop;
    const row = this.rows.find((one) => at >= one.y && at < one.y + one.height);
    if (!row || row.lane === null || x < this.gutter) return null;
    const moment = this.timeAt(x);
    const perPixel = (this.to - this.from) / this.plot;
    const level = this.tiles.levelFor(perPixel / (window.devicePixelRatio || 1));
    const piece = this.tiles.pieces(row.lane, level, this.from, this.to).find((one) => moment >= one.from && moment < one.to);
    const found = piece ? eventAt(piece.events, moment, 3 * perPixel) : null;
    if (!piece || found === null) return null;
    const { start, dur, busy, count, label, layer, step, wait } = piece.events;
    const known = (values: Uint32Array | Float64Array) => ((values[found] as number) ? (values[found] as number) - 1 : null);
    return { lane: row.lane, label: label[found] as number, start: start[found] as number, dur: dur[found] as number, busy: busy[found] as number, count: count[found] as number, layer: known(layer), step: known(step), wait: known(wait) };
  }
}
