import { defineConfig } from "vitest/config";

// One thread for all files: none of them changes what another sees, and a thread each takes longer than the tests.
export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "src/**/*.test.tsx"],
    pool: "threads",
    maxWorkers: 1,
    isolate: false,
    testTimeout: 300_000, // a test that reaches it has hung: that is a failure, never a slow machine
    hookTimeout: 300_000,
  },
});
