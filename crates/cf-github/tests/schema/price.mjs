// Prices a GraphQL document by GitHub's published rules.

import { TypeInfo, getNamedType, visit, visitWithTypeInfo } from "graphql";

const MOST_NODES = 500_000;
const LONGEST_LIST = 100;

// What GitHub counts: one request for each parent of a connection, and as many nodes as a connection may bring.
export function price(schema, document, variables) {
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
