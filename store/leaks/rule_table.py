"""This module lists every kind of secret that is looked for, each as its vendor documents it.

A line is the name of the kind, the shape of its tokens (see `token_shape`), and the documentation that describes it. A
kind whose prefix could be part of other texts is only likely. `named` kinds have no prefix of their own, so they count
only after the name of their vendor.
"""

from __future__ import annotations

from store.leaks.checks import (
    has_github_checksum,
    is_basic_credentials,
    is_jwt,
    is_ordinary_text,
    is_placeholder_password,
)
from store.leaks.rules import Rule, Tier, named, token

LIKELY, POSSIBLE = Tier.LIKELY, Tier.POSSIBLE

_GITHUB = "GitHub Docs, token formats and GitHub's engineering post about token checksums"
_GITLAB = "GitLab Docs, token overview, token prefixes"
_ATLASSIAN = "Atlassian Support, API tokens and access tokens"
_AWS = "AWS IAM User Guide, unique identifiers and access keys"
_GOOGLE = "Google Cloud documentation, API keys and OAuth 2.0 tokens"
_AZURE = "Microsoft Purview documentation, definitions of Azure credentials"
_OPENAI = "OpenAI platform documentation, API keys"
_ANTHROPIC = "Anthropic API documentation, API keys and admin keys"
_SLACK = "Slack API documentation, token types"
_DISCORD = "Discord developer documentation"
_STRIPE = "Stripe documentation, API keys"
_SQUARE = "Square developer documentation, access tokens"
_SHOPIFY = "Shopify changelog, prefixes of access tokens and secrets"
_DOPPLER = "Doppler documentation, token formats"
_HASHICORP = "HashiCorp Vault documentation, token prefixes"
_DIGITALOCEAN = "DigitalOcean API documentation, token prefixes"
_SENTRY = "Sentry documentation, auth tokens"
_GRAFANA = "Grafana documentation, service account tokens"
_NEW_RELIC = "New Relic documentation, API keys"
_TAILSCALE = "Tailscale documentation, key prefixes"
_SONAR = "SonarQube documentation, token types"
_PLANETSCALE = "PlanetScale documentation, token prefixes"

_CODE_HOSTS = (
    token(
        "github-personal-access-token",
        "ghp_{base62:36}",
        _GITHUB,
        has_checksum=has_github_checksum,
        is_builtin=True,
    ),
    token("github-oauth-token", "gho_{base62:36}", _GITHUB, has_checksum=has_github_checksum, is_builtin=True),
    token("github-user-token", "ghu_{base62:36}", _GITHUB, has_checksum=has_github_checksum, is_builtin=True),
    token("github-installation-token", "ghs_{base62:36}", _GITHUB, has_checksum=has_github_checksum, is_builtin=True),
    token(
        "github-stateless-token",
        "ghs_{url64:20-400}.{url64:20-900}.{url64:40-800}",
        "GitHub changelog, 15 May 2026: installation tokens of about 520 characters with two dots",
        is_builtin=True,
    ),
    token("github-refresh-token", "ghr_{base62:36-76}", _GITHUB, is_builtin=True),
    token("github-fine-grained-token", "github_pat_{base62:22}_{base62:59}", _GITHUB, is_builtin=True),
    token("gitlab-personal-access-token", "glpat-{dotted:20-300}", _GITLAB, is_builtin=True),
    token("gitlab-deploy-token", "gldt-{url64:20-64}", _GITLAB),
    token("gitlab-runner-token", "glrt-{dotted:20-300}", _GITLAB),
    token("gitlab-runner-registration-token", "GR1348941{url64:20}", _GITLAB),
    token("gitlab-job-token", "glcbt-{hex:1-5}_{url64:20}", _GITLAB),
    token("gitlab-pipeline-trigger-token", "glptt-{hex:40}", _GITLAB),
    token("gitlab-feed-token", "glft-{url64:20-64}", _GITLAB),
    token("gitlab-incoming-mail-token", "glimt-{url64:25}", _GITLAB),
    token("gitlab-agent-token", "glagent-{url64:50-64}", _GITLAB),
    token("gitlab-oauth-application-secret", "gloas-{hex:64}", _GITLAB),
    token("gitlab-scim-token", "glsoat-{url64:20-64}", _GITLAB),
    token("gitlab-feature-flags-token", "glffct-{url64:20-64}", _GITLAB),
    token("bitbucket-app-password", "ATBB{base62:32}", _ATLASSIAN),
    token("atlassian-api-token", "ATATT3{padded:150-300}", _ATLASSIAN),
    token("atlassian-access-token", "ATCTT3{padded:150-300}", _ATLASSIAN),
    token("trello-token", "ATTA{hex:64}{HEX:8}", _ATLASSIAN),
    token("sourcegraph-access-token", "sgp_{hex:16}_{hex:40}", "Sourcegraph documentation, access tokens"),
    token("sourcegraph-legacy-token", "sgp_{hex:40}", "Sourcegraph documentation, access tokens"),
    token("azure-devops-token", "{base62:76}AZDO{base62:4}", "Microsoft Learn, Azure DevOps personal access tokens"),
    named("azure-devops-legacy-token", "azure_devops azuredevops vsts_pat", "{lower36:52}", "Microsoft Learn"),
)

_CLOUDS = (
    token("aws-access-key", "AKIA{base32:16}", _AWS, is_builtin=True),
    token("aws-temporary-access-key", "ASIA{base32:16}", _AWS, LIKELY),
    token("aws-service-bearer-token", "ABIA{base32:16}", _AWS, LIKELY),
    named(
        "aws-secret-access-key",
        "aws_secret_access_key secret_access_key secretaccesskey aws_secret_key",
        "{base64:40}",
        _AWS,
        Tier.CERTAIN,
    ),
    named("aws-session-token", "aws_session_token sessiontoken", "{base64:100+}", _AWS),
    token("aws-bedrock-key", "ABSK{base64:109-270}", "Amazon Bedrock User Guide, API keys"),
    token("aws-bedrock-short-term-key", "bedrock-api-key-{padded:100+}", "Amazon Bedrock User Guide, API keys"),
    token("aws-appsync-key", "da2-{lower36:26}", "AWS AppSync Developer Guide, API keys"),
    token("amazon-mws-token", "amzn.mws.{uuid}", "Amazon MWS developer guide"),
    token("amazon-login-client-secret", "amzn1.oa2-cs.v1.{hex:64}", "Login with Amazon documentation"),
    token("google-api-key", "AIza{url64:35}", _GOOGLE, is_builtin=True),
    token("google-oauth-client-secret", "GOCSPX-{url64:28}", _GOOGLE),
    token("google-oauth-access-token", "ya29.{url64:50+}", _GOOGLE),
    token("google-oauth-refresh-token", "1//0{url64:40+}", _GOOGLE, LIKELY),
    token("google-storage-hmac-key", "GOOG1E{upper36:55}", "Google Cloud Storage documentation, HMAC keys", LIKELY),
    token("firebase-server-key", "AAAA{url64:7}:APA91b{url64:134}", "Firebase Cloud Messaging documentation"),
    named("recaptcha-secret", "recaptcha", "6L{url64:38}", "Google reCAPTCHA documentation"),
    token("azure-client-secret", "{url64:3}8Q~{dotted:34}", "Microsoft Learn, app registration secrets"),
    token("azure-storage-key", "{base64:76}+ASt{base64:6}==", _AZURE),
    token("azure-cosmos-key", "{base64:76}ACDb{base64:6}==", _AZURE),
    token("azure-batch-key", "{base64:76}+ABa{base64:6}==", _AZURE),
    token("azure-service-bus-key", "{base64:33}+ASb{base64:6}=", _AZURE),
    token("azure-event-hub-key", "{base64:33}+AEh{base64:6}=", _AZURE),
    token("azure-redis-key", "{base64:33}AzCa{base64:6}=", _AZURE),
    token("azure-iot-key", "{base64:33}AIoT{base64:6}=", _AZURE),
    token("azure-registry-password", "{base64:42}+ACR{base64:6}", _AZURE),
    token("azure-search-key", "{base62:42}AzSe{base62:6}", _AZURE),
    token("azure-function-key", "{url64:44}AzFu{url64:6}==", _AZURE),
    named("azure-account-key", "accountkey sharedaccesskey", "{base64:43-86}=", _AZURE),
    token("alibaba-access-key", "LTAI{base62:20}", "Alibaba Cloud documentation, AccessKey pairs"),
    token("tencent-secret-id", "AKID{base62:32}", "Tencent Cloud documentation, API keys"),
    token("yandex-api-key", "AQVN{url64:35-38}", "Yandex Cloud documentation, API keys"),
    token("yandex-oauth-token", "y0_{url64:50-70}", "Yandex ID documentation, OAuth tokens"),
    token("digitalocean-personal-token", "dop_v1_{hex:64}", _DIGITALOCEAN),
    token("digitalocean-oauth-token", "doo_v1_{hex:64}", _DIGITALOCEAN),
    token("digitalocean-refresh-token", "dor_v1_{hex:64}", _DIGITALOCEAN),
    token("heroku-uuid-key", "HRKU-{uuid}", "Heroku Dev Center, platform API tokens"),
    token("heroku-api-key", "HRKU-{url64:58-65}", "Heroku Dev Center, platform API tokens"),
    named("heroku-legacy-key", "heroku", "{uuid}", "Heroku Dev Center, platform API tokens"),
    token("fly-access-token", "fo1_{url64:43}", "Fly.io documentation, access tokens"),
    token("fly-macaroon", "fm2_{padded:100+}", "Fly.io documentation, access tokens"),
    token("netlify-token", "nfp_{base62:36-44}", "Netlify documentation, personal access tokens"),
    named("vercel-token", "vercel", "{base62:24}", "Vercel documentation, access tokens"),
    named("cloudflare-api-token", "cloudflare cf_api", "{url64:40}", "Cloudflare documentation, API tokens"),
    named("cloudflare-global-key", "cloudflare cf_api", "{hex:37}", "Cloudflare documentation, global API key"),
    token("cloudflare-origin-key", "v1.0-{hex:24}-{hex:146}", "Cloudflare documentation, origin CA keys"),
    named("linode-token", "linode", "{hex:64}", "Linode API documentation"),
    named("vultr-api-key", "vultr", "{upper36:36}", "Vultr API documentation"),
    named("hetzner-token", "hetzner hcloud", "{base62:64}", "Hetzner Cloud documentation, API tokens"),
    named("scaleway-secret-key", "scaleway scw_secret", "{uuid}", "Scaleway documentation, API keys"),
    named("fastly-token", "fastly", "{url64:32}", "Fastly documentation, API tokens"),
    token("render-api-key", "rnd_{base62:32}", "Render documentation, API keys"),
    named("railway-token", "railway", "{uuid}", "Railway documentation, tokens"),
    token("scalingo-token", "tk-us-{url64:48}", "Scalingo documentation, API tokens"),
    token("openshift-token", "sha256~{url64:43}", "Red Hat OpenShift documentation, OAuth tokens"),
    token(
        "terraform-cloud-token", "{base62:14}.atlasv1.{url64:60-70}", "HashiCorp Terraform documentation, API tokens"
    ),
    token("vault-service-token", "hvs.{url64:24-140}", _HASHICORP),
    token("vault-batch-token", "hvb.{url64:100-300}", _HASHICORP),
    token("vault-recovery-token", "hvr.{url64:24-140}", _HASHICORP),
    named("consul-token", "consul_http_token consul_token", "{uuid}", "HashiCorp Consul documentation, ACL tokens"),
    token("pulumi-access-token", "pul-{hex:40}", "Pulumi documentation, access tokens"),
    token("doppler-personal-token", "dp.pt.{base62:40-44}", _DOPPLER),
    token("doppler-service-token", "dp.st.{dotted:40-80}", _DOPPLER),
    token("doppler-service-account-token", "dp.sa.{base62:40-44}", _DOPPLER),
    token("doppler-cli-token", "dp.ct.{base62:40-44}", _DOPPLER),
    token("doppler-scim-token", "dp.scim.{base62:40-44}", _DOPPLER),
    token("doppler-audit-token", "dp.audit.{base62:40-44}", _DOPPLER),
    token("infracost-api-key", "ico-{base62:32}", "Infracost documentation, API keys"),
    token("tailscale-auth-key", "tskey-auth-{base62:8-20}-{base62:20-40}", _TAILSCALE),
    token("tailscale-api-key", "tskey-api-{base62:8-20}-{base62:20-40}", _TAILSCALE),
    token("tailscale-oauth-secret", "tskey-client-{base62:8-20}-{base62:20-40}", _TAILSCALE),
    token("defined-networking-key", "dnkey-{url64:26}-{url64:52}", "Defined Networking documentation, API keys"),
    named("ngrok-token", "ngrok", "{base62:25-30}_{base62:15-25}", "ngrok documentation, authtokens"),
)

_MODELS = (
    token("openai-project-key", "sk-proj-{url64:40-200}", _OPENAI, is_builtin=True),
    token("openai-service-key", "sk-svcacct-{url64:40-200}", _OPENAI, is_builtin=True),
    token("openai-admin-key", "sk-admin-{url64:40-200}", _OPENAI),
    token("openai-legacy-key", "sk-{base62:20}T3BlbkFJ{base62:20}", _OPENAI, is_builtin=True),
    token("anthropic-api-key", "sk-ant-api03-{url64:93}AA", _ANTHROPIC, is_builtin=True),
    token("anthropic-compliance-key", "sk-ant-api01-{url64:80-110}", "Anthropic documentation, Compliance API access"),
    token("anthropic-admin-key", "sk-ant-admin01-{url64:80-110}", _ANTHROPIC, is_builtin=True),
    token("claude-oauth-token", "sk-ant-oat01-{url64:80-110}", "Claude Code documentation, authentication"),
    token("claude-refresh-token", "sk-ant-ort01-{url64:80-110}", "Claude Code documentation, authentication"),
    token("claude-session-key", "sk-ant-sid01-{url64:80-120}", "Anthropic, session cookies of claude.ai"),
    token("huggingface-token", "hf_{base62:34}", "Hugging Face documentation, user access tokens", is_builtin=True),
    token("huggingface-organisation-token", "api_org_{base62:34}", "Hugging Face documentation, access tokens"),
    token("replicate-token", "r8_{base62:37}", "Replicate documentation, API tokens"),
    token("groq-key", "gsk_{base62:52}", "Groq documentation, API keys"),
    token("perplexity-key", "pplx-{base62:48}", "Perplexity documentation, API keys"),
    token("xai-key", "xai-{base62:80}", "xAI documentation, API keys"),
    token("openrouter-key", "sk-or-v1-{hex:64}", "OpenRouter documentation, API keys"),
    token("nvidia-key", "nvapi-{url64:64}", "NVIDIA NGC documentation, API keys"),
    token("cerebras-key", "csk-{lower36:48}", "Cerebras documentation, API keys"),
    token("fireworks-key", "fw_{base62:22-24}", "Fireworks AI documentation, API keys", LIKELY),
    token("together-key", "tgp_v1_{url64:43}", "Together AI documentation, API keys"),
    named("together-legacy-key", "together_api togetherai", "{hex:64}", "Together AI documentation, API keys"),
    token("deepseek-key", "sk-{hex:32}", "DeepSeek API documentation", LIKELY),
    named("mistral-key", "mistral", "{base62:32}", "Mistral AI documentation, API keys"),
    named("cohere-key", "cohere co_api", "{base62:40}", "Cohere documentation, API keys"),
    token("pinecone-key", "pcsk_{base62:5-6}_{base62:60-70}", "Pinecone documentation, API keys"),
    token("voyage-key", "pa-{url64:43}", "Voyage AI documentation, API keys", LIKELY),
    token("tavily-key", "tvly-{url64:32-48}", "Tavily documentation, API keys"),
    token("firecrawl-key", "fc-{hex:32}", "Firecrawl documentation, API keys", LIKELY),
    token("jina-key", "jina_{url64:60}", "Jina AI documentation, API keys"),
    named("exa-key", "exa_api", "{uuid}", "Exa documentation, API keys"),
    token("elevenlabs-key", "sk_{hex:48}", "ElevenLabs documentation, API keys", LIKELY),
    token("langsmith-personal-key", "lsv2_pt_{hex:32}_{hex:10}", "LangSmith documentation, API keys"),
    token("langsmith-service-key", "lsv2_sk_{hex:32}_{hex:10}", "LangSmith documentation, API keys"),
    token("langfuse-secret-key", "sk-lf-{uuid}", "Langfuse documentation, API keys"),
    named("wandb-key", "wandb", "{hex:40}", "Weights & Biases documentation, API keys"),
    named("deepgram-key", "deepgram", "{hex:40}", "Deepgram documentation, API keys"),
    named("assemblyai-key", "assemblyai assembly_ai", "{hex:32}", "AssemblyAI documentation, API keys"),
    token("apify-token", "apify_api_{base62:36}", "Apify documentation, API tokens"),
    token("e2b-key", "e2b_{hex:40}", "E2B documentation, API keys"),
    token("cursor-key", "crsr_{hex:64}", "Cursor documentation, API keys"),
)

_CHAT_AND_MAIL = (
    token("slack-bot-token", "xoxb-{digits:10-13}-{digits:10-13}-{base62:24}", _SLACK, is_builtin=True),
    token("slack-user-token", "xoxp-{digits:10-13}-{digits:10-13}-{digits:10-13}-{hex:32}", _SLACK, is_builtin=True),
    token("slack-app-token", "xapp-1-{upper36:9-12}-{digits:10-13}-{hex:64}", _SLACK),
    token("slack-refresh-token", "xoxe-1-{base62:100-200}", _SLACK),
    token("slack-rotating-token", "xoxe.xoxp-1-{base62:100-200}", _SLACK),
    token("slack-rotating-bot-token", "xoxe.xoxb-1-{base62:100-200}", _SLACK),
    token("slack-client-token", "xoxc-{digits:10-13}-{digits:10-13}-{digits:10-13}-{hex:64}", _SLACK),
    token(
        "slack-webhook",
        "https://hooks.slack.com/services/T{upper36:8-12}/B{upper36:8-12}/{base62:24}",
        "Slack API documentation, incoming webhooks",
        is_builtin=True,
    ),
    token("discord-webhook", "https://discord.com/api/webhooks/{digits:17-20}/{url64:60-72}", _DISCORD),
    token("discord-old-webhook", "https://discordapp.com/api/webhooks/{digits:17-20}/{url64:60-72}", _DISCORD),
    named("discord-bot-token", "discord bot_token", "{url64:23-28}.{url64:6-7}.{url64:27-38}", _DISCORD),
    token("telegram-bot-token", "{digits:8-10}:AA{url64:33}", "Telegram Bot API documentation"),
    token(
        "teams-webhook",
        ".webhook.office.com/webhookb2/{uuid}@{uuid}/IncomingWebhook/{hex:32}/{uuid}",
        "Microsoft Teams documentation, incoming webhooks",
    ),
    token("sendgrid-key", "SG.{url64:22}.{url64:43}", "Twilio SendGrid documentation, API keys"),
    named("twilio-auth-token", "twilio", "{hex:32}", "Twilio documentation, auth tokens"),
    named("twilio-api-key", "twilio", "SK{hex:32}", "Twilio documentation, API keys"),
    token("mailgun-key", "key-{hex:32}", "Mailgun documentation, API keys", LIKELY),
    named("mailgun-new-key", "mailgun", "{hex:32}-{hex:8}-{hex:8}", "Mailgun documentation, API keys"),
    named("mailchimp-key", "mailchimp", "{hex:32}-us{digits:1-2}", "Mailchimp documentation, API keys"),
    token("mandrill-key", "md-{url64:22}", "Mailchimp Transactional documentation, API keys", LIKELY),
    token("brevo-key", "xkeysib-{hex:64}-{base62:16}", "Brevo documentation, API keys"),
    token("brevo-smtp-key", "xsmtpsib-{hex:64}-{base62:16}", "Brevo documentation, SMTP keys"),
    token("resend-key", "re_{base62:8}_{base62:24}", "Resend documentation, API keys"),
    token("mailersend-key", "mlsn.{hex:64}", "MailerSend documentation, API tokens"),
    named("postmark-token", "postmark", "{uuid}", "Postmark documentation, server tokens"),
    named("sparkpost-key", "sparkpost", "{hex:40}", "SparkPost documentation, API keys"),
    token("telnyx-key", "KEY{HEX:32}_{base62:22}", "Telnyx documentation, API keys"),
)

_PAYMENTS_AND_SHOPS = (
    token("stripe-secret-key", "sk_live_{base62:24-247}", _STRIPE, is_builtin=True),
    token("stripe-restricted-key", "rk_live_{base62:24-247}", _STRIPE, is_builtin=True),
    token("stripe-test-key", "sk_test_{base62:24-247}", _STRIPE, LIKELY),
    token("stripe-restricted-test-key", "rk_test_{base62:24-247}", _STRIPE, LIKELY),
    token("stripe-webhook-secret", "whsec_{base64:32-64}", "Stripe documentation, webhook signatures"),
    token("square-access-token", "EAAA{url64:60}", _SQUARE),
    token("square-personal-token", "sq0atp-{url64:22}", _SQUARE),
    token("square-oauth-secret", "sq0csp-{url64:43}", _SQUARE),
    token(
        "braintree-access-token",
        "access_token$production${lower36:16}${hex:32}",
        "PayPal Braintree documentation, access tokens",
    ),
    token("flutterwave-key", "FLWSECK-{hex:32}-X", "Flutterwave documentation, API keys"),
    token("flutterwave-test-key", "FLWSECK_TEST-{hex:32}-X", "Flutterwave documentation, API keys", LIKELY),
    token("plaid-production-token", "access-production-{uuid}", "Plaid documentation, access tokens"),
    token("plaid-sandbox-token", "access-sandbox-{uuid}", "Plaid documentation, access tokens", LIKELY),
    token("razorpay-key", "rzp_live_{base62:14}", "Razorpay documentation, API keys", LIKELY),
    token("xendit-key", "xnd_production_{base62:40-80}", "Xendit documentation, API keys"),
    token("gocardless-token", "live_{url64:40}", "GoCardless documentation, access tokens", LIKELY),
    token("mollie-key", "live_{base62:30}", "Mollie documentation, API keys", LIKELY),
    token("easypost-key", "EZAK{base62:54}", "EasyPost documentation, API keys"),
    token("easypost-test-key", "EZTK{base62:54}", "EasyPost documentation, API keys", LIKELY),
    token("shippo-token", "shippo_live_{hex:40}", "Shippo documentation, API tokens"),
    token("shippo-test-token", "shippo_test_{hex:40}", "Shippo documentation, API tokens", LIKELY),
    token("duffel-token", "duffel_live_{url64:43}", "Duffel documentation, access tokens"),
    token("shopify-access-token", "shpat_{hex:32}", _SHOPIFY),
    token("shopify-custom-app-token", "shpca_{hex:32}", _SHOPIFY),
    token("shopify-private-app-token", "shppa_{hex:32}", _SHOPIFY),
    token("shopify-shared-secret", "shpss_{hex:32}", _SHOPIFY),
)

_PACKAGES_AND_BUILDS = (
    token(
        "npm-token",
        "npm_{base62:36}",
        "npm documentation and GitHub's blog, format of access tokens",
        has_checksum=has_github_checksum,
        is_builtin=True,
    ),
    token("pypi-token", "pypi-AgEIcHlwaS5vcmc{url64:50+}", "PyPI help, API tokens", is_builtin=True),
    token("test-pypi-token", "pypi-AgENdGVzdC5weXBpLm9yZw{url64:50+}", "PyPI help, API tokens"),
    token("rubygems-key", "rubygems_{hex:48}", "RubyGems guides, API keys"),
    token("crates-token", "cio{base62:32}", "Rust package registry, announcement of the token format"),
    token("nuget-key", "oy2{lower36:43}", "Microsoft Learn, NuGet API keys", LIKELY),
    token("docker-hub-token", "dckr_pat_{url64:27}", "Docker documentation, personal access tokens"),
    token("docker-organisation-token", "dckr_oat_{url64:32}", "Docker documentation, organization access tokens"),
    token("clojars-token", "CLOJARS_{hex:60}", "Clojars wiki, deploy tokens"),
    token("jfrog-api-key", "AKCp{base62:69}", "JFrog documentation, API keys"),
    token("jfrog-reference-token", "cmVmdGtu{base62:56}", "JFrog documentation, reference tokens"),
    token("sonar-user-token", "squ_{hex:40}", _SONAR),
    token("sonar-project-token", "sqp_{hex:40}", _SONAR),
    token("sonar-analysis-token", "sqa_{hex:40}", _SONAR),
    named("snyk-token", "snyk", "{uuid}", "Snyk documentation, API tokens"),
    named("codecov-token", "codecov", "{uuid}", "Codecov documentation, upload tokens"),
    token("circleci-personal-token", "CCIPAT_{base62:22}_{hex:40}", "CircleCI changelog, token format"),
    token("circleci-project-token", "CCIPRJ_{base62:22}_{hex:40}", "CircleCI changelog, token format"),
    token("buildkite-user-token", "bkua_{hex:40}", "Buildkite documentation, API access tokens"),
    named("travis-token", "travis", "{base62:22}", "Travis CI documentation, API tokens"),
    named("jenkins-token", "jenkins", "11{hex:32}", "Jenkins documentation, API tokens"),
    token("octopus-key", "API-{upper36:26-32}", "Octopus Deploy documentation, API keys", LIKELY),
    token("prefect-key", "pnu_{base62:36}", "Prefect documentation, API keys"),
    token("harness-token", "pat.{url64:22}.{base62:24}.{base62:20}", "Harness documentation, API keys"),
    token("stackhawk-key", "hawk.{url64:20}.{url64:20}", "StackHawk documentation, API keys"),
    token("postman-key", "PMAK-{hex:24}-{hex:34}", "Postman documentation, API keys"),
    token("readme-key", "rdme_{lower36:70}", "ReadMe documentation, API keys"),
)

_DATA_AND_OBSERVABILITY = (
    token("databricks-token", "dapi{hex:32}", "Databricks documentation, personal access tokens"),
    token("supabase-personal-token", "sbp_{hex:40}", "Supabase documentation, access tokens"),
    token("supabase-secret-key", "sb_secret_{url64:22}_{base62:8}", "Supabase documentation, API keys"),
    token("neon-key", "napi_{lower36:64}", "Neon documentation, API keys"),
    token("planetscale-token", "pscale_tkn_{url64:32-64}", _PLANETSCALE),
    token("planetscale-password", "pscale_pw_{url64:32-64}", _PLANETSCALE),
    token("planetscale-oauth-token", "pscale_oauth_{url64:32-64}", _PLANETSCALE),
    token("mongodb-service-account-secret", "mdb_sa_sk_{url64:40}", "MongoDB Atlas documentation, service accounts"),
    named("snowflake-password", "snowflake_password", "{padded:12-80}", "Snowflake documentation"),
    named("algolia-admin-key", "algolia", "{hex:32}", "Algolia documentation, API keys"),
    named("datadog-api-key", "datadog dd_api", "{hex:32}", "Datadog documentation, API keys"),
    named("datadog-app-key", "datadog dd_app", "{hex:40}", "Datadog documentation, application keys"),
    token("new-relic-user-key", "NRAK-{upper36:27}", _NEW_RELIC),
    token("new-relic-insert-key", "NRII-{url64:32}", _NEW_RELIC),
    token("new-relic-license-key", "{hex:36}NRAL", _NEW_RELIC),
    token("grafana-service-account-token", "glsa_{base62:32}_{hex:8}", _GRAFANA),
    token("grafana-cloud-token", "glc_eyJ{padded:60-400}", _GRAFANA),
    token("grafana-api-key", "eyJrIjoi{base64:60-200}", _GRAFANA),
    token("sentry-organisation-token", "sntrys_eyJ{padded:80-400}", _SENTRY),
    token("sentry-user-token", "sntryu_{hex:64}", _SENTRY),
    token("honeycomb-key", "hcaik_{lower36:58}", "Honeycomb documentation, API keys"),
    token("dynatrace-token", "dt0c01.{base32:24}.{base32:64}", "Dynatrace documentation, token format"),
    token("dynatrace-platform-token", "dt0s16.{base32:8}.{base32:64}", "Dynatrace documentation, token format"),
    token("posthog-personal-key", "phx_{base62:43-48}", "PostHog documentation, personal API keys"),
    token("launchdarkly-sdk-key", "sdk-{uuid}", "LaunchDarkly documentation, keys"),
    token("launchdarkly-api-token", "api-{uuid}", "LaunchDarkly documentation, access tokens"),
    token("axiom-token", "xaat-{uuid}", "Axiom documentation, API tokens"),
    token("axiom-personal-token", "xapt-{uuid}", "Axiom documentation, personal tokens"),
    token("checkly-key", "cu_{hex:32}", "Checkly documentation, API keys"),
    named("splunk-hec-token", "splunk", "{uuid}", "Splunk documentation, HTTP Event Collector"),
    named("rollbar-token", "rollbar", "{hex:32}", "Rollbar documentation, access tokens"),
    named("pagerduty-key", "pagerduty pager_duty", "{url64:20}", "PagerDuty documentation, API keys"),
    token("maxmind-license-key", "{base62:6}_{base62:29}_mmk", "MaxMind documentation, license keys"),
    token("mapbox-secret-token", "sk.eyJ{url64:60-120}.{url64:22}", "Mapbox documentation, access tokens"),
)

_WORKPLACE = (
    token("notion-token", "ntn_{base62:46}", "Notion developer documentation, integration tokens"),
    token("notion-legacy-token", "secret_{base62:43}", "Notion developer documentation, integration tokens"),
    token("linear-key", "lin_api_{base62:40}", "Linear developer documentation, API keys"),
    token("linear-oauth-token", "lin_oauth_{hex:64}", "Linear developer documentation, OAuth"),
    token("airtable-token", "pat{base62:14}.{hex:64}", "Airtable developer documentation, personal access tokens"),
    token("clickup-token", "pk_{digits:6-9}_{upper36:32}", "ClickUp developer documentation, personal tokens"),
    named("asana-token", "asana", "{digits:1-2}/{digits:10-18}:{hex:32}", "Asana developer documentation"),
    token("figma-token", "figd_{url64:40}", "Figma developer documentation, access tokens"),
    token("typeform-token", "tfp_{url64:40-70}", "Typeform developer documentation, personal access tokens"),
    token("contentful-token", "CFPAT-{url64:43}", "Contentful documentation, personal access tokens"),
    token("hubspot-token", "pat-na1-{uuid}", "HubSpot developer documentation, private apps"),
    token("hubspot-eu-token", "pat-eu1-{uuid}", "HubSpot developer documentation, private apps"),
    token("zapier-webhook", "https://hooks.zapier.com/hooks/catch/{digits:5-9}/{lower36:6-10}", "Zapier help", LIKELY),
    token("dropbox-token", "sl.{url64:130-200}", "Dropbox developer documentation, access tokens"),
    named("salesforce-token", "salesforce sfdc", "00D{base62:12-15}!{dotted:80-110}", "Salesforce documentation"),
    named("okta-token", "okta ssws", "00{url64:40}", "Okta developer documentation, API tokens"),
    named("zendesk-token", "zendesk", "{base62:40}", "Zendesk developer documentation, API tokens"),
    token("frameio-token", "fio-u-{url64:64}", "Frame.io developer documentation, tokens"),
    token("onepassword-service-token", "ops_eyJ{padded:250+}", "1Password developer documentation, service accounts"),
    token("adafruit-key", "aio_{base62:28}", "Adafruit IO documentation, keys"),
    token("facebook-access-token", "EAA{base62:80-300}", "Meta developer documentation, access tokens", LIKELY),
    token("twitter-bearer-token", "AAAAAAAAAAAAAAAAAAAAA{padded:60-120}", "X developer documentation", LIKELY),
    named("twitch-client-secret", "twitch", "{lower36:30}", "Twitch developer documentation, registering an app"),
    token("age-secret-key", "AGE-SECRET-KEY-1{bech32:58}", "age specification"),
)


def _private_key(rule_id: str, label: str, source: str, tier: Tier = Tier.CERTAIN) -> Rule:
    """Make a rule for a block of text that begins and ends with lines of dashes, also inside of a JSON string."""
    dashes = "-" * 5
    body = "MIIEowIBAAKCAQEA7bq2Vd9Zk1s4TtX0uFhGy8Rj3LwPn6Mc5EaQxYiO"
    return Rule(
        rule_id,
        tier,
        keywords=(f"begin {label.lower()}-",),
        pattern=rf"BEGIN {label}-----((?:[0-9A-Za-z+/=\s\\:,.()]|-[0-9A-Za-z]){{40,}})",
        source=source,
        example=f"{dashes}BEGIN {label}{dashes}\n{body}\n{dashes}END {label}{dashes}",
        is_builtin=True,
        needs_boundary=False,
    )


_PRIVATE_KEYS = (
    _private_key("private-key", "PRIVATE KEY", "RFC 7468, textual encodings of keys"),
    _private_key("rsa-private-key", "RSA PRIVATE KEY", "RFC 8017 and RFC 7468"),
    _private_key("ec-private-key", "EC PRIVATE KEY", "RFC 5915"),
    _private_key("dsa-private-key", "DSA PRIVATE KEY", "OpenSSL documentation"),
    _private_key("openssh-private-key", "OPENSSH PRIVATE KEY", "OpenSSH, PROTOCOL.key"),
    _private_key("encrypted-private-key", "ENCRYPTED PRIVATE KEY", "RFC 5958", LIKELY),
    _private_key("pgp-private-key", "PGP PRIVATE KEY BLOCK", "RFC 9580"),
    Rule(
        "putty-private-key",
        Tier.CERTAIN,
        keywords=("private-lines:",),
        pattern=r"Private-Lines: \d{1,3}\s{1,2}([0-9A-Za-z+/=\s\\]{40,})",
        source="PuTTY documentation, format of PPK files",
        example="Private-Lines: 2\nAAAAgQDc5yY1kQf3Vb8rN6sTzLmXw0hJpE7uGdCq2RiOa9B4\n",
        needs_boundary=False,
    ),
    Rule(
        "wireguard-private-key",
        Tier.CERTAIN,
        keywords=("privatekey =", "privatekey="),
        pattern=r"(?i:privatekey) ?= ?([0-9A-Za-z+/]{43}=)",
        source="WireGuard, manual of wg",
        example="PrivateKey = " + "yAnz5TF4lXXJte14tji3zlMNf7hd2rYUIgJBgB3fBmk"[::-1] + "=",
    ),
)

_PASSWORD_NAMES = (
    "password passwd api_key apikey api-key secret secret_key access_token auth_token client_secret".split()
)
_SEPARATORS = ("=", " =", ": ", '":', "':", '\\":')

_HEADERS_AND_ADDRESSES = (
    Rule(
        "url-password",
        LIKELY,
        keywords=("://",),
        pattern=r"://[0-9A-Za-z._~%+-]{0,64}:([^\s/@:\"'<>\\`|,;(){}\[\]]{3,200})@[0-9A-Za-z.\[-]",
        source="RFC 3986, section 3.2.1",
        example="postgresql://reporting:tR7w-kq93ZbLx@db.internal/sales",
        needs_boundary=False,
        is_harmless=is_placeholder_password,
        is_builtin=True,
    ),
    Rule(
        "bearer-header",
        LIKELY,
        keywords=("bearer ",),
        pattern=r"(?i:bearer) ([0-9A-Za-z+/_.=~-]{20,})",
        source="RFC 6750",
        example="Authorization: Bearer 7fQz2LkWm9Xc4VbN8pRt3HsY",
        is_builtin=True,
    ),
    Rule(
        "basic-header",
        LIKELY,
        keywords=("basic ",),
        pattern=r"(?i:authorization[\"':\\ ]{1,6}basic|basic) ([0-9A-Za-z+/]{8,200}={0,2})",
        source="RFC 7617",
        example="Authorization: Basic cmVwb3J0aW5nOnRSN3cta3E5M1piTHg=",
        is_harmless=lambda value: not is_basic_credentials(value),
    ),
    Rule(
        "json-web-token",
        LIKELY,
        keywords=("eyj",),
        pattern=r"(eyJ[0-9A-Za-z_-]{10,}\.eyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]{20,})",
        source="RFC 7519",
        example="eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJyZXBvcnRpbmciLCJyb2xlIjoiYWRtaW4ifQ.Qm9yVGFuN2tXc1h6MmxQOHVGaA9kRt",
        is_harmless=lambda value: not is_jwt(value),
        prefix="eyJ",
    ),
    Rule(
        "netrc-password",
        LIKELY,
        keywords=("machine ",),
        pattern=r"machine \S{1,100}\s{1,8}login \S{1,100}\s{1,8}password (\S{6,200})",
        source="GNU inetutils manual, .netrc",
        example="machine git.internal login reporting password tR7w-kq93ZbLx",
        is_harmless=is_placeholder_password,
    ),
    Rule(
        "connection-string-password",
        LIKELY,
        keywords=(";password=", ";pwd="),
        pattern=r"(?i:;password|;pwd)=([^;\s\"'\\]{6,128})",
        source="Microsoft Learn, SQL Server connection strings",
        example="Server=db.internal;Database=sales;User Id=reporting;Password=tR7w-kq93ZbLx;",
        needs_boundary=False,
        is_harmless=is_placeholder_password,
    ),
    Rule(
        "assigned-value",
        POSSIBLE,
        keywords=tuple(name + separator for name in _PASSWORD_NAMES for separator in _SEPARATORS),
        pattern=r"[A-Za-z_-]{4,14}[\\\"']{0,3} ?[:=] ?[\\\"']{0,3}([0-9A-Za-z+/_.~!@#%^&*=-]{12,200})",
        source="The usual names of such variables",
        example='client_secret = "tR7w-kq93ZbLx8Vd2Ym"',
        needs_boundary=False,
        is_harmless=is_ordinary_text,
    ),
)

RULES: tuple[Rule, ...] = (
    *_CODE_HOSTS,
    *_CLOUDS,
    *_MODELS,
    *_CHAT_AND_MAIL,
    *_PAYMENTS_AND_SHOPS,
    *_PACKAGES_AND_BUILDS,
    *_DATA_AND_OBSERVABILITY,
    *_WORKPLACE,
    *_PRIVATE_KEYS,
    *_HEADERS_AND_ADDRESSES,
)

RULES_BY_ID = {rule.id: rule for rule in RULES}
