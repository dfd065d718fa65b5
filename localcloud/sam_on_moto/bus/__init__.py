"""EventBridge: rules that match, targets that are reached, schedules that fire."""
