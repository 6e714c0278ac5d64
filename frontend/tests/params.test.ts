import { afterEach, expect, test, vi } from "vitest";
import { open } from "./browser-window";

afterEach(() => vi.unstubAllGlobals());

test("a choice is added to those that the page was opened with", async () => {
  const page = open("/report.html?page=2&sort.kernels=calls-down#kernels");
  const { setParams } = await import("../src/params");
  setParams({ "find.kernels": "gemm" });
  expect(page.location.search).toBe("?page=2&sort.kernels=calls-down&find.kernels=gemm");
  expect(page.location.hash).toBe("#kernels");
  setParams({ "sort.kernels": null, "find.kernels": "" });
  expect(page.location.search).toBe("?page=2");
});

test("the back button undoes a choice, but not one that was made quietly", async () => {
  const page = open("/?a=1");
  const { params, setParams } = await import("../src/params");
  setParams({ b: "2" });
  setParams({ b: "3" }, true);
  expect(params().get("b")).toBe("3");
  page.history.back();
  expect(params().toString()).toBe("a=1");
});

test("the back button works after a reload", async () => {
  const page = open("/");
  const { setParams } = await import("../src/params");
  setParams({ kernel: "gemm" });
  setParams({ kernel: "norm" });
  open(page);
  const { params } = await import("../src/params");
  expect(params().get("kernel")).toBe("norm");
  page.history.back();
  expect(params().get("kernel")).toBe("gemm");
  page.history.back();
  expect(params().get("kernel")).toBeNull();
});

test("where there is no history, one choice does not undo another", async () => {
  const page = open("/report.html?page=2");
  page.refuses = true;
  const { params, setParams } = await import("../src/params");
  setParams({ kernel: "gemm" });
  setParams({ layer: "3" });
  expect(params().toString()).toBe("page=2&kernel=gemm&layer=3");
  expect(page.location.search).toBe("?page=2");
});

test("what the browser refused once is in the address with the next choice", async () => {
  const page = open("/");
  const { params, setParams } = await import("../src/params");
  page.refuses = true;
  setParams({ kernel: "gemm" });
  page.refuses = false;
  setParams({ layer: "3" });
  expect(page.location.search).toBe("?kernel=gemm&layer=3");
  page.history.back();
  expect(params().toString()).toBe("");
});

test("who listens is told of changes and of the back button, and not of what changes nothing", async () => {
  const page = open("/");
  const { onParams, setParams } = await import("../src/params");
  const tell = vi.fn();
  const stop = onParams(tell);
  setParams({ kernel: "gemm" });
  setParams({ kernel: "gemm" });
  page.history.back();
  expect(tell).toHaveBeenCalledTimes(2);
  stop();
  setParams({ kernel: "norm" });
  expect(tell).toHaveBeenCalledTimes(2);
});
