/** The page: page.html + page.js + page.css, fixed names, one chunk, nothing inline. */
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  build: {
    outDir: "../src/pullcord/web",
    emptyOutDir: false, // the bar's build writes here too
    target: "es2022",
    cssTarget: ["chrome125", "firefox128", "safari18"],
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    rolldownOptions: {
      input: "page.html",
      output: {
        entryFileNames: "page.js",
        assetFileNames: "page[extname]",
        codeSplitting: false,
      },
    },
  },
});
