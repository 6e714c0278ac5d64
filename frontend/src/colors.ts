// One color per kernel category and per phase, the same on every page; readable on light and dark.

const CATEGORY: Record<string, string> = {
  gemm: "#3b76d1",
  attention: "#d9822b",
  linear_attention: "#b8631c",
  moe: "#7a5cc7",
  norm: "#2e9d82",
  comm: "#d14d5a",
  memcpy: "#8a8f98",
  memset: "#6d727b",
  copy: "#9a8f7a",
  elementwise: "#5fa55a",
  activation: "#4a9a4a",
  quant: "#c75da5",
  rope: "#3fa7c4",
  kv_cache: "#2a8fb0",
  sampling: "#b59b25",
  embedding: "#a88bd8",
  softmax: "#cf7f9c",
  reduce: "#7fa83a",
};
const SPARE = ["#6b8fb5", "#b58f6b", "#8fb56b", "#b56b8f", "#6bb5a8", "#a86bb5"];

export function categoryColor(category: string | null): string {
  if (category === null) return "#8a8f98";
  const known = CATEGORY[category];
  if (known) return known;
  let hash = 0;
  for (const letter of category) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0;
  return SPARE[hash % SPARE.length] as string;
}

const PHASE: Record<string, string> = {
  prefill: "#d9822b",
  decode: "#3b76d1",
  mixed: "#7a5cc7",
  draft: "#2e9d82",
  verify: "#c75da5",
};

export const phaseColor = (phase: string | null): string => (phase && PHASE[phase]) || "#8a8f98";

export const WORSE = "#c8434f";
export const BETTER = "#2f9363";
export const SIDES = ["#3b76d1", "#d9822b", "#2e9d82", "#c75da5"];
