import { defineConfig } from "vitest/config";

// One thread for all files: none of them changes what another sees, and a thread each takes longer than the tests.
export default defineConfig({
  test: { include: ["src/**/*.test.ts", "src/**/*.test.tsx"], pool: "threads", maxWorkers: 1, isolate: false },
});
