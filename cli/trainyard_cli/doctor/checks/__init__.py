"""One file a check: `check(account, scope)` yields what is wrong; a sound account yields nothing."""
