// Shows the OpenAPI document by Swagger UI, with the key that the page at / has for this tab.

import { address, credentials, json } from "../page/ask.js";

const LISTED = 10; // models whose requests are listed at once; of more, each opens by a click
const place = document.getElementById("docs");

/** Add the tab's key to a request for this server that has none. */
const withKey = (request) => {
  const own = request.url.startsWith(address("."));
  if (own && credentials.get() && !request.headers.Authorization) request.headers.Authorization = credentials.get();
  return request;
};

try {
  const spec = await json(`openapi.json${location.search}`);
  spec.servers = [{ url: address(".").replace(/\/$/, "") }];
  SwaggerUIBundle({ spec, domNode: place, docExpansion: spec.tags.length > LISTED ? "none" : "list", validatorUrl: null, requestInterceptor: withKey });
} catch (error) {
  const page = document.createElement("a");
  page.href = "./";
  page.textContent = "The page";
  place.replaceChildren(error.message, ...(error.status === 401 ? [" ", page, " asks for a key and keeps it for this tab."] : []));
}
