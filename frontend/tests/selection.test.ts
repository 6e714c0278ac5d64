import { afterEach, expect, test, vi } from "vitest";
import { open } from "./browser-window";

afterEach(() => vi.unstubAllGlobals());

test("a link opens with the same selection", async () => {
  open("/?kernel=void%20gemm%3C4%3E&layer=3&step=0&range=1000-2500&view=0-5000&operator=aten%3A%3Amm&shape=m%3D1");
  const { selected } = await import("../src/selection");
  expect(selected()).toEqual({ kernel: "void gemm<4>", role: null, operator: "aten::mm", shape: "m=1", layer: 3, step: 0, range: [1000, 2500], view: [0, 5000] });
});

test.each(["layer=x", "layer=-1", "layer=1e3", "step=1.5", "range=5", "range=9-3", "range=a-b", "range=-5-9", "view="])("what cannot be chosen is nothing: %s", async (query) => {
  open(`/?${query}`);
  const { NOTHING, selected } = await import("../src/selection");
  expect(selected()).toEqual(NOTHING);
});

test("a selection is in the address, and the back button leaves it", async () => {
  const page = open("/?page=2");
  const { NOTHING, select, selected, toggle } = await import("../src/selection");
  select({ kernel: "gemm", range: [10.4, 99.6] });
  expect(page.location.search).toBe("?page=2&kernel=gemm&range=10-100");
  toggle({ layer: 4 });
  toggle({ layer: 4 });
  expect(selected().layer).toBeNull();
  expect(selected().kernel).toBe("gemm");
  page.history.back();
  expect(selected().layer).toBe(4);
  page.history.back();
  page.history.back();
  expect(selected()).toEqual(NOTHING);
});

test("where there is no history, a selection lasts, and another view of the page finds it", async () => {
  const page = open("/report.html");
  page.refuses = true;
  const { reread, select, selected } = await import("../src/selection");
  select({ kernel: "gemm" });
  select({ layer: 2 });
  reread();
  expect(selected()).toMatchObject({ kernel: "gemm", layer: 2 });
});
