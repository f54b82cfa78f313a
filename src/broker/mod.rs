//! May this call happen, and who answers it; it keeps no processes.
