/** The bar: one self-contained ES module that defines <pullcord-bar> and imports nothing. */
import { defineConfig } from "vite";

export default defineConfig({
  publicDir: false,
  build: {
    outDir: "../src/pullcord/web",
    emptyOutDir: false, // the page's build writes here too
    target: "es2022",
    cssTarget: ["chrome125", "firefox128", "safari18"],
    modulePreload: { polyfill: false },
    rolldownOptions: {
      input: "src/bar/element.ts",
      output: { format: "iife", entryFileNames: "pullcord-bar.js", codeSplitting: false },
    },
  },
});
