// From values to pixels, and the round values to write along an axis.

export interface Scale {
  (value: number): number;
  domain: [number, number];
  ticks: number[];
}

/** The round number (1, 2 or 5 times a power of ten) at or above a step. */
export function roundStep(step: number): number {
  if (!(step > 0) || !Number.isFinite(step)) return 1;
  const unit = 10 ** Math.floor(Math.log10(step));
  const times = step / unit;
  return unit * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

/** Round values between two others, about `count` of them. */
export function ticksOf(low: number, high: number, count: number): number[] {
  const step = roundStep((high - low) / Math.max(1, count));
  const found: number[] = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + 1e-9 * step; at += 1) found.push(Number((at * step).toPrecision(12)));
  return found;
}

/** Pixels for an axis label: labels this far apart do not meet. */
const [ACROSS, DOWN] = [84, 34];
const room = ([from, to]: [number, number]): number => Math.max(2, Math.floor(Math.abs(to - from) / (to > from ? ACROSS : DOWN)));

/** A scale in even steps; `whole` widens it to round ends. */
export function linear(low: number, high: number, range: [number, number], whole = false): Scale {
  let [first, last] = high > low ? [low, high] : [low, low + (Math.abs(low) || 1)];
  if (whole) {
    const step = roundStep((last - first) / room(range));
    [first, last] = [Math.floor(first / step + 1e-9) * step, Math.ceil(last / step - 1e-9) * step];
  }
  const scale = (value: number) => range[0] + ((value - first) / (last - first)) * (range[1] - range[0]);
  return Object.assign(scale, { domain: [first, last] as [number, number], ticks: ticksOf(first, last, room(range)) });
}

/** A scale in powers of ten. */
export function log(low: number, high: number, range: [number, number]): Scale {
  const [first, last] = [Math.log10(low), Math.log10(high)];
  const scale = (value: number) => range[0] + ((Math.log10(Math.max(value, Number.MIN_VALUE)) - first) / (last - first || 1)) * (range[1] - range[0]);
  const every = Math.max(1, Math.ceil((last - first) / room(range)));
  const ticks: number[] = [];
  for (let at = Math.ceil(first - 1e-9); at <= last + 1e-9; at += every) ticks.push(10 ** at);
  return Object.assign(scale, { domain: [low, high] as [number, number], ticks });
}
