// Ten hues, the same on every page, that readers with a color vision deficiency can tell apart (tests/unit/test_colors.py).

const HUES = {
  blue: "#4778e5",
  orange: "#e7743e",
  violet: "#6b45b8",
  red: "#c8324f",
  teal: "#19c593",
  green: "#8ddd7a",
  pink: "#d393d3",
  olive: "#6e6400",
  amber: "#ffa511",
  gray: "#8a8f98",
};

/** All of them, for what has no color of its own. */
export const HUE_LIST: readonly string[] = Object.values(HUES);

/** Families of kernel categories: what does like work has one color. */
export const FAMILIES: { name: string; color: string; categories: string[] }[] = [
  { name: "GEMM, convolution", color: HUES.blue, categories: ["gemm", "conv"] },
  { name: "attention", color: HUES.orange, categories: ["attention", "linear_attention", "softmax"] },
  { name: "MoE", color: HUES.violet, categories: ["moe"] },
  { name: "communication", color: HUES.pink, categories: ["comm"] },
  { name: "norm, reduction", color: HUES.teal, categories: ["norm", "reduce", "pool"] },
  { name: "element-wise, quantization", color: HUES.green, categories: ["elementwise", "activation", "rope", "optimizer", "quant"] },
  { name: "memory", color: HUES.olive, categories: ["memcpy", "memset", "copy", "kv_cache"] },
  { name: "sampling, embedding", color: HUES.amber, categories: ["sampling", "embedding", "sort_scan"] },
  { name: "other", color: HUES.gray, categories: ["other"] },
];

const CATEGORY = new Map(FAMILIES.flatMap((family) => family.categories.map((category) => [category, family.color] as const)));

const FAMILY = new Map(FAMILIES.flatMap((family) => family.categories.map((category) => [category, family.name] as const)));

/** What a category counts as in a legend. */
export const familyOf = (category: string | null): string => FAMILY.get(category ?? "") ?? "other";

export const categoryColor = (category: string | null): string => CATEGORY.get(category ?? "") ?? HUES.gray;

const PHASE: Record<string, string> = { prefill: HUES.orange, decode: HUES.blue, mixed: HUES.violet, draft: HUES.teal, verify: HUES.pink };

export const phaseColor = (phase: string | null): string => (phase && PHASE[phase]) || HUES.gray;

/** Causes of idle time: tints of red, which nothing that runs has. */
export const IDLE: Record<string, string> = { host: HUES.red, launch: "#fdd7e7", sync: "#810303", alloc: "#974869", unlinked: "#770d39" };

export const causeColor = (cause: string): string => IDLE[cause] ?? HUES.red;

/** Calls of the host into the GPU runtime. */
const CALL: Record<string, string> = { launch: HUES.blue, sync: IDLE["sync"] as string, alloc: IDLE["alloc"] as string };

export const callColor = (kind: string | null): string => (kind && CALL[kind]) || HUES.gray;

/** What the host ran around them. */
const HOST: Record<string, string> = { cpu_op: HUES.teal, annotation: HUES.pink };

export const hostColor = (kind: string | null): string => (kind && HOST[kind]) || HUES.gray;

export const LAYERS: readonly [string, string] = [HUES.gray, HUES.teal];

/** Black or white, whichever can be read better on a color. */
export function inkOn(color: string): string {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const part = parseInt(color.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}

/** A color over a surface, as one color: what a text on it has to be readable on. */
export function blend(color: string, surface: string, share: number): string {
  const part = (hex: string, at: number) => parseInt(hex.slice(at, at + 2), 16);
  return `#${[1, 3, 5].map((at) => Math.round(share * part(color, at) + (1 - share) * part(surface, at)).toString(16).padStart(2, "0")).join("")}`;
}

export const WORSE = "#c8434f";
export const BETTER = "#2f9363";
export const SIDES = [HUES.blue, HUES.orange, HUES.teal, HUES.pink];
