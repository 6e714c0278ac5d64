// Terms of the glossary inside labels and sentences.
import { TERMS } from "./glossary";

/** As a word of its own, in any case; the longest term first, so that it wins. */
const ANY = new RegExp(`(?<![\\w-])(${Object.keys(TERMS).sort((a, b) => b.length - a.length).map((term) => term.replaceAll(/[.%()]/g, "\\$&")).join("|")})(?![\\w-])`, "gi");
const ABOUT = new Map(Object.entries(TERMS).map(([term, about]) => [term.toLowerCase(), about]));

/** The parts of a text, those that are terms with what they mean; each term once. */
export function inTerms(text: string): [string, string | null][] {
  const parts: [string, string | null][] = [];
  const seen = new Set<string>();
  let end = 0;
  for (const found of text.matchAll(ANY)) {
    const term = found[0].toLowerCase();
    if (seen.has(term)) continue;
    seen.add(term);
    if (found.index > end) parts.push([text.slice(end, found.index), null]);
    parts.push([found[0], ABOUT.get(term) ?? null]);
    end = found.index + found[0].length;
  }
  return end < text.length ? [...parts, [text.slice(end), null]] : parts;
}

/** What the terms of a label mean, in one text; undefined without any. */
export const aboutTerms = (label: string): string | undefined => inTerms(label).flatMap(([part, about]) => (about ? [`${part}: ${about}`] : [])).join("; ") || undefined;
