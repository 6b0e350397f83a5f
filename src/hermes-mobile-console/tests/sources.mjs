// The SDK's sources import each other as `.js`, the names they have when built; here they run as they are.

import { registerHooks } from 'node:module';

registerHooks({
  resolve(specifier, context, next) {
    const own = specifier.startsWith('.') && !context.parentURL?.includes('/node_modules/');
    return next(own ? specifier.replace(/\.js$/, '.ts') : specifier, context);
  },
});
