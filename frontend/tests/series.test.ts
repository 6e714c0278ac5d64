import { expect, test } from "vitest";
import { seriesOf } from "../src/series";

const of = (model: string | null, gpu: string | null) => ({ model, gpu });

test("one line per model and GPU, within what was chosen", () => {
  expect(seriesOf([of("b", "H200"), of("a", "H200"), of(null, "B200")], new URLSearchParams({ framework: "vllm" }))).toEqual([
    { name: "b on H200", query: "framework=vllm&model=b&gpu=H200" },
    { name: "a on H200", query: "framework=vllm&model=a&gpu=H200" },
    { name: "unknown model on B200", query: "framework=vllm&model=%28unknown%29&gpu=B200" },
  ]);
});

test("what is unknown is a series of its own, not all that is known", () => {
  const groups = [of(null, "H200"), of("a", "H200"), of("a", null), of(null, null)];
  const chosen = seriesOf(groups, new URLSearchParams()).map(({ name, query }) => [name, ...new URLSearchParams(query).values()]);
  expect(chosen).toEqual([
    ["unknown model on H200", "(unknown)", "H200"],
    ["a on H200", "a", "H200"],
    ["a on unknown GPU", "a", "(unknown)"],
    ["unknown model on unknown GPU", "(unknown)", "(unknown)"],
  ]);
});

test("one series is asked for as it was chosen", () => {
  for (const groups of [[], [of("a", "H200")]]) expect(seriesOf(groups, new URLSearchParams({ gpu: "H200" }))).toEqual([{ name: "", query: "gpu=H200" }]);
});

test("many series are cut", () => {
  const groups = Array.from({ length: 20 }, (_, at) => of(`model ${at}`, "H200"));
  expect(seriesOf(groups, new URLSearchParams())).toHaveLength(6);
});
