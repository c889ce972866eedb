// Validates every document that cf-github can send against GitHub's own GraphQL schema, with its variables, and prices it
// by GitHub's published rules. Reads one JSON object a line from standard input:
//
//   cargo run --quiet --package cf-github --example documents | node crates/cf-github/tests/schema/validate.mjs
//
// Ends with the line "N passed, N failed", and with 1 if anything failed.

import { createInterface } from "node:readline";
import { schema as github } from "@octokit/graphql-schema";
import { buildSchema, extendSchema, parse, validate } from "graphql";
import { getVariableValues } from "graphql/execution/values.js";
import { price } from "./price.mjs";

const schema = buildSchema(github.idl, { assumeValid: true });

// Relations between issues are newer than this copy of the schema. Documents that ask for them are named "newer-…", are
// checked against the schema with this one field added, and must fail without it.
const newer = extendSchema(
  schema,
  parse("extend type Issue { blockedBy(first: Int, after: String, last: Int, before: String): IssueConnection! }"),
);

function check({ name, query, variables }) {
  let document;
  try {
    document = parse(query);
  } catch (error) {
    return [`cannot be parsed: ${error.message}`];
  }
  const complaints = [];
  const isNewer = name.startsWith("newer-");
  const against = isNewer ? newer : schema;
  complaints.push(...validate(against, document).map((error) => error.message));
  if (isNewer && validate(schema, document).length === 0) {
    complaints.push("is valid without the newer field: the schema has caught up, and the extension can go");
  }
  const operation = document.definitions.find((definition) => definition.kind === "OperationDefinition");
  const { errors } = getVariableValues(against, operation.variableDefinitions ?? [], variables);
  complaints.push(...(errors ?? []).map((error) => error.message));
  if (complaints.length === 0) {
    const { points, nodes, complaints: more } = price(against, document, variables);
    complaints.push(...more);
    // A look at states costs one point, however many items it is about.
    if (!/issues-/.test(name) && points > 1) complaints.push(`costs ${points} points`);
    console.log(`${name}: ${query.length} bytes, ${nodes} nodes, ${points} points`);
  }
  return complaints;
}

let passed = 0;
let failed = 0;
for await (const line of createInterface({ input: process.stdin })) {
  if (!line.trim()) continue;
  const sample = JSON.parse(line);
  const complaints = check(sample);
  if (complaints.length === 0) {
    passed += 1;
  } else {
    failed += 1;
    for (const complaint of complaints.slice(0, 5)) console.log(`${sample.name}: FAILED: ${complaint}`);
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);
