"""Skills: functions that are saved for later sessions."""
