import { expect, it } from "vitest";
import { within } from "../src/root";

it("takes the prefix of a proxy off, and nothing that only looks like it", () => {
  expect(["/perf", "/perf/", "/perf/profile/a", "/perfect"].map((path) => within(path, "/perf"))).toEqual(["/", "/", "/profile/a", "/perfect"]);
  expect(within("/profile/a", "")).toBe("/profile/a");
});
