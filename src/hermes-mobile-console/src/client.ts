/** The SDK, from its source: the one place that knows where that is. */

export * from '../../hermes-mobile-client/src/hermesClient.ts';
