// SPDX-License-Identifier: GPL-3.0-or-later
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    environment: "happy-dom",
    include: ["page/tests/**/*.test.ts"],
    // One thread and one document for all files: a separate one took each longer than its tests.
    pool: "threads",
    poolOptions: { threads: { singleThread: true } },
    isolate: false,
  },
});
