//! Drives requests: pacer x protocol x stop rule, one loop; records intended and actual send time.
