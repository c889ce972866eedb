// Cuts what cf-github asks over REST out of GitHub's own OpenAPI description, for a mock server: one path, with every
// reference resolved. Writes `openapi.json` beside itself; the whole description is too large for a server to read each
// time.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const whole = JSON.parse(readFileSync(require.resolve("@octokit/openapi/generated/api.github.com.deref.json"), "utf8"));
const path = "/repos/{owner}/{repo}/issues/{issue_number}";
const { get, parameters } = whole.paths[path];

for (const response of Object.values(get.responses)) {
  const json = response.content?.["application/json"];
  if (!json) continue;
  // With its references resolved, an example stands one level too deep.
  for (const example of Object.values(json.examples ?? {})) {
    if (example.value?.value) example.value = example.value.value;
  }
  // GitHub takes its own media type for this one wherever it stands; the description leaves that out.
  response.content["application/vnd.github+json"] = json;
}

const slice = { openapi: whole.openapi, info: whole.info, paths: { [path]: { parameters, get } } };
writeFileSync(new URL("openapi.json", import.meta.url), JSON.stringify(slice));
console.log(`${path}: ${Object.keys(get.responses).join(", ")}`);
