//! Quotas of clients: there are none.

use crate::api::Context;
use tidemill_wire::kafka::message::{
    DescribeClientQuotasRequestData, DescribeClientQuotasResponseData,
};

/// Lists no quotas.
pub(crate) async fn describe(
    _: &Context<'_>,
    _: DescribeClientQuotasRequestData,
) -> DescribeClientQuotasResponseData {
    DescribeClientQuotasResponseData {
        entries: Some(Vec::new()),
        ..DescribeClientQuotasResponseData::default()
    }
}
