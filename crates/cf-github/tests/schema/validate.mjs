// Validates every document that cf-github can send against GitHub's own GraphQL schema, with its variables, and prices it
// by GitHub's published rules. Reads one JSON object a line from standard input:
//
//   cargo run --quiet --package cf-github --example documents | node crates/cf-github/tests/schema/validate.mjs
//
// Ends with the line "N passed, N failed", and with 1 if anything failed.

import { createInterface } from "node:readline";
import { schema as github } from "@octokit/graphql-schema";
import {
  TypeInfo,
  buildSchema,
  extendSchema,
  getNamedType,
  parse,
  validate,
  visit,
  visitWithTypeInfo,
} from "graphql";
import { getVariableValues } from "graphql/execution/values.js";

const schema = buildSchema(github.idl, { assumeValid: true });

// Relations between issues are newer than this copy of the schema. Documents that ask for them are named "newer-…", are
// checked against the schema with this one field added, and must fail without it.
const newer = extendSchema(
  schema,
  parse("extend type Issue { blockedBy(first: Int, after: String, last: Int, before: String): IssueConnection! }"),
);

const MOST_NODES = 500_000;
const LONGEST_LIST = 100;

// What GitHub counts: one request for each parent of a connection, and as many nodes as a connection may bring.
function price(schema, document, variables) {
  const types = new TypeInfo(schema);
  const fragments = new Map();
  for (const definition of document.definitions) {
    if (definition.kind === "FragmentDefinition") fragments.set(definition.name.value, definition);
  }
  const totals = { requests: 0, nodes: 0, complaints: [] };
  const value = (node) => (node.kind === "Variable" ? variables[node.name.value] : Number(node.value));

  const walk = (root, parents) => {
    const multipliers = [parents];
    visit(
      root,
      visitWithTypeInfo(types, {
        Field: {
          enter(field) {
            const here = multipliers.at(-1);
            let below = here;
            const type = types.getType() && getNamedType(types.getType());
            if (type && type.name.endsWith("Connection")) {
              const bound = field.arguments.find((a) => a.name.value === "first" || a.name.value === "last");
              const size = bound && value(bound.value);
              if (!(size >= 1 && size <= LONGEST_LIST)) {
                totals.complaints.push(`${field.name.value} asks for ${size} entries, not for 1 to ${LONGEST_LIST}`);
              } else {
                totals.requests += here;
                totals.nodes += here * size;
                below = here * size;
              }
            }
            const ids = field.name.value === "nodes" && field.arguments.find((a) => a.name.value === "ids");
            if (ids) {
              below = here * listOf(ids.value, variables).length;
              if (below > LONGEST_LIST) totals.complaints.push(`nodes asks for ${below} ids`);
            }
            multipliers.push(below);
          },
          leave() {
            multipliers.pop();
          },
        },
        FragmentSpread(spread) {
          const fragment = fragments.get(spread.name.value);
          walk(fragment, multipliers.at(-1));
        },
        FragmentDefinition(fragment) {
          // Priced where they are spread.
          return fragment === root ? undefined : false;
        },
      }),
    );
  };
  for (const definition of document.definitions) {
    if (definition.kind === "OperationDefinition") walk(definition, 1);
  }
  if (totals.nodes > MOST_NODES) totals.complaints.push(`${totals.nodes} nodes are more than ${MOST_NODES}`);
  return { ...totals, points: Math.max(1, Math.round(totals.requests / 100)) };
}

function listOf(node, variables) {
  return node.kind === "Variable" ? variables[node.name.value] : node.values;
}

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
