// Builds the report as one file with everything inside, and writes it where prony embeds it.
// The file names by hash the only script that may run, so that nothing in the data can ever become one.
import { createHash } from "node:crypto";
import { defineConfig, type Plugin } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

function contentSecurityPolicy(): Plugin {
  return {
    name: "content-security-policy",
    enforce: "post",
    // After the script has been put into the page.
    generateBundle: {
      order: "post",
      handler(_options, bundle) {
        for (const file of Object.values(bundle)) {
          if (file.type !== "asset" || !file.fileName.endsWith(".html")) continue;
          const page = String(file.source);
          const scripts = [...page.matchAll(/<script type="module"[^>]*>([\s\S]*?)<\/script>/g)];
          if (scripts.length !== 1 || !scripts[0]![1]) throw new Error(`one script inside the page was expected, ${scripts.length} found`);
          const hash = createHash("sha256").update(scripts[0]![1]!).digest("base64");
          const policy = `default-src 'none'; script-src 'sha256-${hash}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'`;
          const source = page.replace("<head>", () => `<head>\n    <meta http-equiv="Content-Security-Policy" content="${policy}" />`);
          delete bundle[file.fileName];
          this.emitFile({ type: "asset", fileName: "report.html", source });
        }
      },
    },
  };
}

export default defineConfig({
  plugins: [viteSingleFile({ removeViteModuleLoader: true }), contentSecurityPolicy()],
  build: {
    outDir: "../crates/prony-report/assets",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    rollupOptions: { input: "index.html", output: { entryFileNames: "report.js" } },
  },
});
