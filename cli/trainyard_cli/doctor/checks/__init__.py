"""One file for each check: `check(account, scope)` yields what is wrong, or nothing."""
